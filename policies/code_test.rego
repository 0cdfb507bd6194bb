package code_test

import data.douane
import data.fixtures_test as fix

program(scopes, arguments) := fix.with_changes([
	["/target/server", ""],
	["/target/name", "run_code"],
	["/arguments", arguments],
	["/principal/scopes", scopes],
])

decided(question) := fix.outcome(answer) if {
	answer := douane.decision with input as question with data.douane.config as fix.config
}

may_run := ["tools:call", "code:run"]

test_a_program_needs_a_scope_of_its_own if {
	decided(program(may_run, {"code": "1"})) == ["allow", []]
	decided(program(["tools:call", "tools:write"], {"code": "1"})) == ["deny", ["insufficient_scope"]]
	decided(program(["code:run"], {"code": "1"})) == ["deny", ["insufficient_scope"]]
}

test_what_a_program_says_goes_nowhere if {
	question := json.patch(program(may_run, {"code": "1"}), [{
		"op": "replace",
		"path": "/flow/links",
		"value": fix.to("none"),
	}])
	decided(question) == ["allow", []]
}

test_grants_are_asked_about_where_they_are_to_hold_beforehand if {
	asked := {"tool": "mail__send", "max_calls": 2, "preapproved": true}
	decided(program(may_run, {"code": "1", "grants": [asked]})) == ["ask", ["grants_in_advance"]]
	narrowing := object.union(asked, {"preapproved": false})
	decided(program(may_run, {"code": "1", "grants": [narrowing]})) == ["allow", []]
}

test_a_tool_of_a_server_that_is_called_so_is_none_of_ours if {
	theirs := fix.with_changes([
		["/target/server", "mail"],
		["/target/name", "run_code"],
		["/principal/scopes", ["tools:call"]],
	])
	decided(theirs) == ["allow", []]
	ours := fix.with_changes([
		["/target/server", ""],
		["/target/name", "run_code"],
		["/target/kind", "prompt"],
		["/principal/scopes", ["prompts"]],
	])
	decided(ours) == ["allow", []]
}

test_a_program_is_listed_to_who_may_call_tools if {
	listed := fix.listed([
		["/target/server", ""],
		["/target/name", "run_code"],
		["/principal/scopes", ["tools:list"]],
	])
	decided(listed) == ["allow", []]
}
