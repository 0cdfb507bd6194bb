package effects_test

import data.douane
import data.fixtures_test as fix

decided(question) := fix.outcome(answer) if {
	answer := douane.decision with input as question with data.douane.config as fix.config
}

trusted := ["/flow/label", fix.label("trusted", "internal")]

test_an_untrusted_run_asks_before_what_cannot_be_undone if {
	every effect in ["destroy", "credential", "execute", "unheard", ""] {
		decided(fix.with_changes([["/target/effect", effect]])) == ["ask", ["untrusted_run"]]
		decided(fix.with_changes([["/target/effect", effect], trusted])) == ["allow", []]
	}
}

test_a_label_that_is_not_there_is_untrusted if {
	decided(fix.with_changes([["/target/effect", "destroy"], ["/flow/label", {}]])) == ["ask", ["untrusted_run"]]
}

test_an_untrusted_run_may_write_what_names_nobody if {
	decided(fix.with_changes([["/target/effect", "write"]])) == ["allow", []]
}

test_a_call_without_flow_is_denied if {
	question := json.patch(fix.read, [{"op": "remove", "path": "/flow"}])
	decided(question) == ["deny", ["no_flow"]]
}

test_flow_is_not_missed_in_a_list if {
	every effect in ["write", "egress", "pay", "destroy", "credential", "execute"] {
		decided(fix.listed([["/target/effect", effect]])) == ["allow", []]
	}
}

test_the_table_can_deny_and_a_slip_in_it_does if {
	every word in ["deny", "alow"] {
		row := {"untrusted_run": word, "proof": "never", "no_destination": "allow", "sends": "never"}
		question := fix.with_changes([["/target/effect", "write"]])
		answer := douane.decision with input as question
			with data.douane.config as fix.config
			with data.douane.effects as {"write": row}
		fix.outcome(answer) == ["deny", ["untrusted_run"]]
	}
}

test_a_table_that_cannot_be_read_is_the_strictest if {
	every table in [{}, null, {"read": null}, {"read": "allow"}] {
		answer := douane.decision with input as fix.with_changes([["/flow/destinations", fix.to("none")]])
			with data.douane.config as fix.config
			with data.douane.effects as table
		fix.outcome(answer) == ["deny", ["untrusted_run"]]
	}
}

test_a_row_without_its_other_cells_is_the_strictest if {
	question := fix.with_changes([["/flow/payload", fix.carrying(1)]])
	answer := douane.decision with input as question
		with data.douane.config as fix.config
		with data.douane.effects as {"read": {"untrusted_run": "allow"}}
	fix.outcome(answer) == ["ask", ["no_destination", "private_data_leaves"]]
}
