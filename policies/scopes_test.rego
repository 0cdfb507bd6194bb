package scopes_test

import data.douane
import data.fixtures_test as fix

decision(question) := answer if {
	answer := douane.decision with input as question with data.douane.config as fix.config
}

decided(question) := fix.outcome(decision(question))

having(scopes, changes) := fix.with_changes(array.concat(changes, [["/principal/scopes", scopes]]))

lacking := ["deny", ["insufficient_scope"]]

test_a_call_needs_tools_call if {
	decided(having(["tools:list"], [])) == lacking
	decided(having(["tools:call"], [])) == ["allow", []]
}

test_another_effect_needs_tools_write_too if {
	decision(having(["tools:call"], [["/target/effect", "write"]])) == {
		"verdict": "deny",
		"reasons": [{
			"code": "insufficient_scope",
			"message": "the token lacks a scope: tools:call tools:write",
		}],
		"obligations": [{"duty": "require_step_up", "scopes": ["tools:call", "tools:write"]}],
	}
	decided(having(["tools:call", "tools:write"], [["/target/effect", "write"]])) == ["allow", []]
}

test_more_scopes_are_asked_for_only_where_they_help if {
	answer := decision(having([], [["/target/pin/status", "drifted"]]))
	answer.obligations == []
}

test_a_list_shows_what_a_call_would_need_more_scopes_for if {
	every scopes in [["tools:list"], ["tools:call"]] {
		decided(fix.listed([["/target/effect", "pay"], ["/principal/scopes", scopes]])) == ["allow", []]
	}
	answer := decision(fix.listed([["/principal/scopes", ["prompts"]]]))
	fix.outcome(answer) == lacking
	answer.obligations == []
}

test_the_other_kinds_have_scopes_of_their_own if {
	every pair in [
		["prompt", "prompts"],
		["resource", "resources"],
		["template", "resources"],
		["completion", "prompts"],
		["completion", "resources"],
	] {
		decided(having([pair[1]], [["/target/kind", pair[0]]])) == ["allow", []]
		decided(having(["tools:call"], [["/target/kind", pair[0]]])) == lacking
	}
}
