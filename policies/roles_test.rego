package roles_test

import data.douane
import data.fixtures_test as fix

decision(question, access) := answer if {
	answer := douane.decision with input as question
		with data.douane.config as fix.config
		with data.douane.access as access
}

decided(groups, access) := fix.outcome(decision(
	fix.with_changes([["/principal/groups", groups]]),
	access,
))

open := {"deny": [], "only": {}}

closing(entry) := {"deny": [entry], "only": {}}

closed := ["deny", ["access_denied"]]

test_a_user_or_an_admin_may if {
	decided(["users"], open) == ["allow", []]
	decided(["admins"], open) == ["allow", []]
}

test_nobody_else_may if decided(["approvers"], open) == ["deny", ["no_role"]]

test_without_roles_nobody_may if {
	answer := douane.decision with input as fix.read with data.douane.config as {}
	fix.outcome(answer) == ["deny", ["no_role"]]
}

test_a_tool_is_closed_to_a_group if {
	entry := {"server": "mail", "tool": "search", "groups": ["interns"], "reason": "not for interns"}
	decided(["users", "interns"], closing(entry)) == closed
	decided(["users"], closing(entry)) == ["allow", []]
	answer := decision(fix.with_changes([["/principal/groups", ["users", "interns"]]]), closing(entry))
	answer.reasons[0].message == "not for interns"
}

test_another_server_or_tool_stays_open if {
	decided(["users"], closing({"server": "bank"})) == ["allow", []]
	decided(["users"], closing({"server": "mail", "tool": "send"})) == ["allow", []]
}

test_what_an_entry_leaves_out_it_means_all_of if {
	every entry in [{}, {"server": "mail"}, {"tool": "search"}, {"server": "*", "tool": "*"}] {
		decided(["users"], closing(entry)) == closed
	}
}

test_a_slip_closes_more if {
	every entry in [{"server": ["mail"]}, {"groups": "interns"}, {"group": ["interns"]}] {
		decided(["users"], closing(entry)) == closed
	}
}

test_access_rules_that_cannot_be_read_close_everything if {
	every access in [{}, {"deny": null, "only": {}}, {"deny": [], "only": []}, {"deny": ["mail"], "only": {}}, {"deny": [], "only": {"mail": "staff"}}] {
		decided(["users"], access) == ["deny", ["access_unreadable"]]
	}
}

test_a_server_is_reserved_for_a_group if {
	access := {"deny": [], "only": {"mail": ["staff"]}}
	decided(["users"], access) == ["deny", ["server_reserved"]]
	decided(["users", "staff"], access) == ["allow", []]
	decided(["users"], {"deny": [], "only": {"bank": ["staff"]}}) == ["allow", []]
}

test_whose_groups_are_not_told_is_of_none if {
	access := {"deny": [], "only": {"mail": ["staff"]}}
	untold := object.remove(fix.read.principal, ["groups"])
	answer := decision(fix.with_changes([["/principal", untold]]), access)
	"server_reserved" in {reason.code | some reason in answer.reasons}
}

test_a_server_that_is_not_told_is_the_one_that_is_closed if {
	untold := fix.with_changes([["/target", object.remove(fix.read.target, ["server", "name"])]])
	fix.outcome(decision(untold, closing({"server": "bank", "tool": "pay"}))) == closed
	answer := decision(untold, {"deny": [], "only": {"bank": ["staff"]}})
	"server_reserved" in {reason.code | some reason in answer.reasons}
}

test_what_is_closed_is_not_listed if {
	answer := decision(fix.listed([]), closing({"server": "mail"}))
	fix.outcome(answer) == closed
}
