package results_test

import data.douane
import data.fixtures_test as fix

decision(results) := answer if {
	answer := douane.decision with input as fix.with_changes([["/phase", "result"]])
		with data.douane.config as fix.config
		with data.douane.results as results
}

test_a_result_passes_as_it_is if {
	decision({"redact": [], "truncate_bytes": 0}) == {"verdict": "allow", "reasons": [], "obligations": []}
}

test_a_result_is_redacted_and_shortened if {
	answer := decision({"redact": ["AKIA[0-9A-Z]{16}"], "truncate_bytes": 1000})
	{obligation | some obligation in answer.obligations} == {
		{"duty": "redact", "patterns": ["AKIA[0-9A-Z]{16}"]},
		{"duty": "truncate", "bytes": 1000},
	}
}

test_a_call_has_no_such_duties if {
	answer := douane.decision with input as fix.read
		with data.douane.config as fix.config
		with data.douane.results as {"redact": ["x"], "truncate_bytes": 1}
	answer.obligations == []
}
