package pins_test

import data.douane
import data.fixtures_test as fix

decided(question) := fix.outcome(answer) if {
	answer := douane.decision with input as question with data.douane.config as fix.config
}

test_only_an_approved_definition_is_called if {
	every status in ["pending", "drifted", "revoked", ""] {
		every kind in ["tool", "prompt", "resource", "template", "completion"] {
			changes := [["/target/pin/status", status], ["/target/kind", kind]]
			decided(fix.with_changes(changes)) == ["deny", ["pin_not_approved"]]
		}
	}
}

test_a_list_does_not_tell_pins_apart if {
	decided(fix.listed([["/target/pin/status", "pending"]])) == ["allow", []]
}

test_a_change_is_held if {
	every tier in ["T1", "T2", "T3"] {
		douane.pin == "hold" with input as {"change": {"tier": tier}}
	}
	douane.pin == "hold" with input as {}
}

test_one_person_approves if douane.pin_approvals == 1 with input as {"change": {"tier": "T3"}}

test_a_cosmetic_change_is_approved if douane.pin == "approve" with input as {"change": {"tier": "T0"}}
