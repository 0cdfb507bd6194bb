package approvals_test

import data.douane
import data.fixtures_test as fix

asked := fix.with_changes([["/target/effect", "egress"], ["/flow/destinations", fix.to("none")]])

decided(question) := fix.outcome(answer) if {
	answer := douane.decision with input as question with data.douane.config as fix.config
}

with_approval(question, approval) := json.patch(question, [{
	"op": "add",
	"path": "/approval",
	"value": approval,
}])

yes := {"id": "a_1", "by": "sam", "span": "once", "note": ""}

test_a_yes_on_file_answers_an_ask if {
	decided(asked) == ["ask", ["unproven_destination"]]
	decided(with_approval(asked, yes)) == ["allow", []]
}

test_no_other_value_is_a_yes if {
	every value in [null, true, "a_1", [yes]] {
		decided(with_approval(asked, value)) == ["ask", ["unproven_destination"]]
	}
}

test_a_yes_never_answers_a_deny if {
	denied := json.patch(asked, [{"op": "replace", "path": "/target/pin/status", "value": "drifted"}])
	decided(with_approval(denied, yes)) == ["deny", ["pin_not_approved"]]
}

test_nobody_approves_their_own_call if not douane.self_approval with input as asked
