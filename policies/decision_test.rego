package decision_test

import data.douane
import data.fixtures_test as fix

decided(question) := fix.outcome(answer) if {
	answer := douane.decision with input as question with data.douane.config as fix.config
}

test_a_read_is_allowed if decided(fix.read) == ["allow", []]

test_nothing_is_allowed_that_no_rule_knows if {
	every change in [["/phase", "later"], ["/phase", null]] {
		decided(fix.with_changes([change])) == ["deny", ["no_rule"]]
	}
}

test_an_unknown_kind_needs_a_scope_that_nobody_has if {
	decided(fix.with_changes([["/target/kind", "unheard"]])) == ["deny", ["insufficient_scope"]]
}

test_an_empty_question_is_denied if douane.decision.verdict == "deny" with input as {}

test_a_deny_outweighs_an_ask if {
	decided(fix.with_changes([
		["/target/effect", "execute"],
		["/target/pin/status", "drifted"],
	])) == ["deny", ["pin_not_approved"]]
}

test_a_server_may_ask_what_is_listed if {
	every method in ["elicitation/create", "roots/list", "sampling/createMessage"] {
		decided(fix.with_changes([
			["/target/kind", "server_request"],
			["/target/name", method],
			["/principal/scopes", []],
		])) == ["allow", []]
	}
	decided(fix.with_changes([
		["/target/kind", "server_request"],
		["/target/name", "tasks/list"],
	])) == ["deny", ["no_rule"]]
}

test_what_a_server_says_by_itself_is_a_result_and_no_call if {
	news := [["/target/kind", "server_request"], ["/target/name", "notifications/message"]]
	decided(fix.with_changes(array.concat(news, [["/phase", "result"]]))) == ["allow", []]
	decided(fix.with_changes(news)) == ["deny", ["no_rule"]]
}

test_every_reason_is_told if {
	decided(fix.with_changes([
		["/principal/groups", []],
		["/target/pin/status", "revoked"],
	])) == ["deny", ["no_role", "pin_not_approved"]]
}
