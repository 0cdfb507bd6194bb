package destinations_test

import data.douane
import data.fixtures_test as fix

decided(changes) := fix.outcome(answer) if {
	answer := douane.decision with input as fix.with_changes(changes)
		with data.douane.config as fix.config
}

clean := ["/flow/label", fix.label("trusted", "internal")]

secret := ["/flow/label", fix.label("trusted", "secret")]

effect(name) := ["/target/effect", name]

going(proof) := ["/flow/destinations", fix.to(proof)]

carrying(record) := ["/flow/payload", fix.carrying(record)]

test_every_proof_of_a_destination_counts if {
	every proof in ["tenant", "task", "typed", "trusted_result"] {
		every name in ["write", "egress", "pay"] {
			decided([effect(name), going(proof)]) == ["allow", []]
		}
	}
}

test_an_unproven_destination_asks_in_an_untrusted_run if {
	every name in ["write", "egress", "pay"] {
		decided([effect(name), going("none")]) == ["ask", ["unproven_destination"]]
	}
	decided([effect("read"), going("none")]) == ["allow", []]
}

test_one_unproven_destination_is_enough if {
	both := array.concat(fix.to("tenant"), fix.to("none"))
	decided([effect("egress"), ["/flow/destinations", both]]) == ["ask", ["unproven_destination"]]
}

test_a_trusted_run_may_write_and_send_anywhere if {
	every name in ["write", "egress"] {
		decided([effect(name), going("none"), clean]) == ["allow", []]
	}
}

test_a_payment_always_needs_proof if {
	decided([effect("pay"), going("none"), clean]) == ["ask", ["unproven_destination"]]
	decided([effect("pay"), clean]) == ["ask", ["no_destination"]]
}

test_sending_to_nobody_in_particular_asks if {
	decided([effect("egress")]) == ["ask", ["no_destination"]]
	decided([effect("egress"), ["/flow/label", fix.label("trusted", "private")]]) == ["ask", ["no_destination"]]
	decided([effect("egress"), clean]) == ["allow", []]
}

test_private_data_goes_to_the_tenant_only if {
	every record in [1, 99] {
		decided([effect("egress"), going("tenant"), carrying(record)]) == ["allow", []]
		decided([effect("egress"), going("typed"), carrying(record)]) == ["ask", ["private_data_leaves"]]
		decided([effect("write"), going("typed"), carrying(record)]) == ["ask", ["private_data_leaves"]]
	}
	decided([effect("egress"), clean, carrying(1)]) == ["ask", ["private_data_leaves"]]
}

test_without_the_tables_nothing_is_proof_and_nobody_may_receive if {
	question := fix.with_changes([effect("egress"), going("tenant"), carrying(1)])
	answer := douane.decision with input as question
		with data.douane.config as fix.config
		with data.douane.proofs as null
		with data.douane.confidential as {}
	fix.outcome(answer) == ["ask", ["private_data_leaves", "unproven_destination"]]
	denied := douane.decision with input as fix.with_changes([effect("egress"), going("tenant"), secret])
		with data.douane.config as fix.config
		with data.douane.confidential as {}
	fix.outcome(denied) == ["deny", ["secret_leaves"]]
}

test_public_data_may_leave if {
	decided([effect("egress"), going("typed"), carrying(2)]) == ["allow", []]
}

test_a_read_of_an_address_may_not_carry_private_data_there if {
	decided([going("none"), carrying(1)]) == ["ask", ["private_data_leaves"]]
	decided([going("none"), carrying(2)]) == ["allow", []]
	decided([carrying(1)]) == ["allow", []]
}

test_a_write_to_nobody_carries_nothing_out if {
	decided([effect("write"), carrying(1)]) == ["allow", []]
	decided([effect("destroy"), clean, going("tenant"), carrying(1)]) == ["allow", []]
}

test_secrets_do_not_leave if {
	every change in [secret, carrying(3)] {
		decided([effect("egress"), going("task"), change]) == ["deny", ["secret_leaves"]]
		decided([effect("egress"), going("tenant"), change]) == ["allow", []]
	}
	decided([effect("egress"), secret]) == ["deny", ["secret_leaves"]]
	decided([effect("write"), secret]) == ["allow", []]
}
