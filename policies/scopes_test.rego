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

unproven := [["/target/effect", "egress"], ["/flow/destinations", fix.to("none")]]

test_what_a_person_should_look_at_is_asked_before_more_scopes_are if {
	every scopes in [[], ["tools:list"], ["tools:call"]] {
		answer := decision(having(scopes, unproven))
		fix.outcome(answer) == ["ask", ["unproven_destination"]]
		answer.obligations == []
	}
}

test_more_scopes_are_asked_for_once_a_person_has_said_yes if {
	yes := {"id": "a_1", "by": "sam", "span": "once", "note": ""}
	asked := having(["tools:call"], unproven)
	answer := decision(json.patch(asked, [{"op": "add", "path": "/approval", "value": yes}]))
	fix.outcome(answer) == lacking
	answer.obligations == [{"duty": "require_step_up", "scopes": ["tools:call", "tools:write"]}]
}

test_what_is_denied_besides_is_neither_asked_nor_helped_by_scopes if {
	answer := decision(having(["tools:call"], array.concat(unproven, [["/target/pin/status", "drifted"]])))
	fix.outcome(answer) == ["deny", ["pin_not_approved"]]
	answer.obligations == []
}

test_what_needs_a_scope_to_be_seen_is_not_shown_for_a_question if {
	lists := fix.listed([["/principal/scopes", ["prompts"]]])
	answer := douane.decision with input as lists with data.douane.config as fix.config
		with douane.ask as {{"code": "look", "message": "look"}}
	fix.outcome(answer) == lacking
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
