package douane_test

import data.douane

carrying(group, given) := {
	"phase": "call",
	"target": {"server": "mail", "kind": "tool", "name": "send", "effect": "egress"},
	"flow": {"destinations": [{"path": "$.to", "by": "nobody"}], "at_home": true},
	"dlp": {"arguments": [{"class": group, "group": group, "path": "$.body", "count": 1, "given": given}], "result": []},
}

reasons(asked) := {reason.code | some reason in douane.deny with input as asked}

asks(asked) := {reason.code | some reason in douane.ask with input as asked}

test_a_credential_goes_nowhere_but_home if {
	"sensitive_data" in reasons(carrying("credential", ""))
	not "sensitive_data" in reasons(carrying("credential", "server"))
	not "sensitive_data" in reasons(carrying("credential", "task"))
}

test_by_way_of_home_it_goes_to_nobody_else if {
	by_way := object.union(carrying("credential", "server"), {"flow": {"at_home": false}})
	"sensitive_data" in reasons(by_way)
	"sensitive_data" in reasons(json.remove(by_way, ["/flow/at_home"]))
	"sensitive_data" in asks(object.union(carrying("iban", "server"), {"flow": {"at_home": "yes"}}))
}

test_an_account_is_asked_about if {
	"sensitive_data" in asks(carrying("iban", ""))
	not "sensitive_data" in reasons(carrying("iban", ""))
}

test_what_says_where_the_call_goes_is_judged_as_that if {
	asked := json.patch(carrying("iban", ""), [{"op": "add", "path": "/dlp/arguments/0/place", "value": true}])
	not "sensitive_data" in asks(asked)
	beside := object.union(carrying("iban", ""), {"flow": {"destinations": [{"path": "$.body", "by": "task"}]}})
	"sensitive_data" in asks(beside)
	"sensitive_data" in asks(json.patch(beside, [{"op": "add", "path": "/dlp/arguments/0/place", "value": false}]))
}

test_within_the_tenant_it_passes if {
	asked := object.union(carrying("card", ""), {"flow": {"destinations": [{"path": "$.to", "by": "tenant"}]}})
	not "sensitive_data" in asks(asked)
	mixed := {"flow": {"destinations": [{"path": "$.to", "by": "tenant"}, {"path": "$.cc", "by": "nobody"}]}}
	"sensitive_data" in asks(object.union(carrying("card", ""), mixed))
}

test_what_names_no_place_stays_inside_only_if_it_writes if {
	nowhere := object.union(carrying("card", ""), {"flow": {"destinations": []}})
	"sensitive_data" in asks(nowhere)
	written := object.union(nowhere, {"target": {"server": "notes", "kind": "tool", "name": "add", "effect": "write"}})
	not "sensitive_data" in asks(written)
}

test_a_row_of_a_class_goes_before_its_group if {
	found := object.union(carrying("iban", ""), {"dlp": {"arguments": [{"class": "api_key", "group": "credential", "path": "$.a", "count": 1, "given": ""}], "result": []}})
	"sensitive_data" in reasons(found)
	not "sensitive_data" in reasons(found) with data.douane.dlp.arguments as {"api_key": {"to": ["anywhere"], "otherwise": "deny"}, "credential": {"to": [], "otherwise": "deny"}}
}

answered(class, group) := {
	"phase": "result",
	"target": {"server": "mail", "kind": "tool", "name": "read", "effect": "read"},
	"dlp": {"arguments": [], "result": [{"class": class, "group": group, "path": "$.content[0].text", "count": 1}]},
}

duties(asked) := {duty | some duty in douane.duty with input as asked}

test_answers_show_credentials_masked if {
	{"duty": "mask", "classes": ["api_key"]} in duties(answered("api_key", "credential"))
	count({duty | some duty in duties(answered("iban", "iban")); duty.duty == "mask"}) == 0
}

test_what_has_no_row_passes if {
	count(reasons(carrying("contact", "")) & {"sensitive_data"}) == 0
	count(asks(carrying("contact", "")) & {"sensitive_data"}) == 0
}

test_a_word_that_is_none_is_a_no if {
	"sensitive_data" in reasons(carrying("iban", "")) with data.douane.dlp.arguments as {"iban": {"to": ["hom"], "otherwise": "refuse"}}
	some reason in douane.deny with input as answered("iban", "iban") with data.douane.dlp.results as {"iban": "tokens"}
	reason.code == "sensitive_data"
}

test_tokens_drops_and_answers_withheld if {
	rows := {"iban": "tokenize", "card": "drop", "contact": "withhold"}
	{"duty": "tokenize", "classes": ["iban"]} in duties(answered("iban", "iban")) with data.douane.dlp.results as rows
	{"duty": "drop", "classes": ["card"]} in duties(answered("card", "card")) with data.douane.dlp.results as rows
	some reason in douane.deny with input as answered("email", "contact") with data.douane.dlp.results as rows
	reason.code == "sensitive_data"
}

test_without_the_table_what_holds_without_a_word_holds if {
	every table in [{}, {"arguments": {}, "results": {}}, {"arguments": null, "results": []}, null, "off"] {
		"sensitive_data" in reasons(carrying("credential", "")) with data.douane.dlp as table
		"sensitive_data" in asks(carrying("iban", "")) with data.douane.dlp as table
		not "sensitive_data" in asks(carrying("contact", "")) with data.douane.dlp as table
		{"duty": "mask", "classes": ["api_key"]} in duties(answered("api_key", "credential")) with data.douane.dlp as table
	}
}

test_a_row_that_is_there_goes_before_it if {
	open := {"arguments": {"credential": {"to": ["anywhere"], "otherwise": "deny"}}, "results": {"credential": "show"}}
	not "sensitive_data" in reasons(carrying("credential", "")) with data.douane.dlp as open
	count(duties(answered("api_key", "credential"))) == 0 with data.douane.dlp as open
	"sensitive_data" in asks(carrying("iban", "")) with data.douane.dlp as open
}

test_a_row_that_says_nothing_is_a_no if {
	every row in [null, false, "ask", {}, {"to": ["home"]}, {"to": ["hom"], "otherwise": "deni"}, {"to": "home", "otherwise": []}] {
		"sensitive_data" in reasons(carrying("contact", "")) with data.douane.dlp.arguments as {"contact": row}
	}
}

test_a_word_that_is_none_withholds if {
	every how in ["maks", "Mask", null, false, {}] {
		some reason in douane.deny with input as answered("email", "contact") with data.douane.dlp.results as {"contact": how}
		reason.code == "sensitive_data"
	}
}

test_a_finding_whose_class_is_not_told_is_held if {
	asked := carrying("credential", "")
	untold := json.remove(asked, ["/dlp/arguments/0/class"])
	"sensitive_data" in reasons(untold)
	answer := json.remove(answered("api_key", "credential"), ["/dlp/result/0/class"])
	some duty in duties(answer)
	duty.duty == "mask"
}
