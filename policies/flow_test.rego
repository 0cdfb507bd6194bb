package flow_test

import data.douane
import data.fixtures_test as fix

decided(changes) := fix.outcome(answer) if {
	answer := douane.decision with input as fix.with_changes(changes)
		with data.douane.config as fix.config
}

by_profile(name, changes) := fix.outcome(answer) if {
	answer := douane.decision with input as fix.with_changes(changes)
		with data.douane.config as fix.config
		with data.douane.flow.profile as name
}

allowed := ["allow", []]

asking(code) := ["ask", [code]]

messages(changes) := {reason.message | some reason in answer.reasons} if {
	answer := douane.decision with input as fix.with_changes(changes)
		with data.douane.config as fix.config
}

clean := ["/flow/label", fix.label("trusted", "internal")]

clean_private := ["/flow/label", fix.label("trusted", "private")]

open := ["/flow/label", fix.label("untrusted", "public")]

secret := ["/flow/label", fix.label("trusted", "secret")]

effect(name) := ["/target/effect", name]

going(proof) := ["/flow/destinations", fix.to(proof)]

carrying(level) := ["/flow/payload", fix.carrying(level)]

linking(proof) := ["/flow/links", fix.to(proof)]

asked_for(answer) := ["/flow/asked_for", answer]

where := ["/flow/names_where", true]

# Destinations.

test_every_trusted_proof_of_a_destination_counts if {
	every proof in ["tenant", "task", "typed", "trusted_result"] {
		every name in ["read", "write", "egress", "pay", "destroy"] {
			decided([effect(name), going(proof)]) == allowed
		}
	}
}

test_a_password_that_only_the_tenant_knows_is_no_new_one if {
	every proof in ["task", "typed", "trusted_result"] {
		decided([effect("credential"), going(proof)]) == allowed
	}
	decided([effect("credential"), going("tenant")]) == asking("unproven_destination")
}

test_an_unproven_destination_asks_in_an_untrusted_run if {
	every name in ["write", "egress", "pay", "destroy", "credential"] {
		decided([effect(name), going("nobody")]) == asking("unproven_destination")
	}
}

test_one_unproven_destination_is_enough if {
	both := array.concat(fix.to("tenant"), fix.to("none"))
	decided([effect("egress"), ["/flow/destinations", both]]) == asking("unproven_destination")
}

test_a_trusted_run_may_write_anywhere_and_send_while_it_has_nothing_private if {
	every name in ["read", "write", "egress", "destroy", "credential", "execute"] {
		decided([effect(name), going("nobody"), clean]) == allowed
	}
	decided([effect("egress"), going("nobody"), clean_private]) == asking("unproven_destination")
	decided([effect("egress"), going("task"), clean_private]) == allowed
}

test_a_payment_always_needs_proof if {
	decided([effect("pay"), going("nobody"), clean]) == asking("unproven_destination")
	decided([effect("pay"), clean]) == asking("no_destination")
	decided([effect("pay"), where]) == allowed
}

page := ["/flow/destinations", [object.union(fix.to("nobody")[0], {"form": "url"})]]

test_a_read_of_a_page_needs_proof_where_there_is_something_to_carry_there if {
	decided([page]) == asking("unproven_destination")
	decided([page, asked_for(true)]) == asking("unproven_destination")
	decided([page, ["/flow/label", fix.label("untrusted", "internal")]]) == asking("unproven_destination")
	decided([page, open]) == allowed
	decided([page, clean_private]) == allowed
}

# What is in a place for hosts and URLs comes as a URL, and a long text with an address in it as a text.
test_a_read_reaches_nobody_by_a_name if {
	every form in ["name", "email", "account"] {
		looked_up := ["/flow/destinations", [object.union(fix.to("outsider")[0], {"form": form})]]
		decided([looked_up]) == allowed
		decided([looked_up, secret]) == allowed
	}
	text := ["/flow/destinations", [object.union(fix.to("nobody")[0], {"form": "text"})]]
	decided([text]) == asking("unproven_destination")
	decided([text, secret]) == decided([page, secret])
	"secret_leaves" in decided([page, secret])[1]
}

test_a_source_that_the_user_points_at_is_good_for_a_message_and_not_for_money if {
	every name in ["read", "write", "egress"] {
		decided([effect(name), going("pointed")]) == allowed
	}
	every name in ["pay", "destroy", "credential"] {
		decided([effect(name), going("pointed")]) == asking("unproven_destination")
	}
}

test_what_a_server_gave_out_goes_home if {
	every name in ["write", "egress"] {
		decided([effect(name), going("own_id")]) == allowed
	}
	every name in ["egress", "pay", "destroy", "credential", "execute"] {
		decided([effect(name), going("own_id"), asked_for(true)]) == allowed
		"unproven_destination" in decided([effect(name), going("own_id"), asked_for(false)])[1]
	}
	decided([effect("destroy"), where]) == asking("no_destination")
	"the tool's effect is destroy, and no argument says what it reaches" in messages([effect("destroy"), where])
}

test_a_name_is_good_for_what_is_asked_for_if_nobody_spoke_against_it if {
	every name in ["write", "egress", "destroy"] {
		decided([effect(name), going("name"), asked_for(true)]) == allowed
	}
	every name in ["pay", "credential", "execute"] {
		decided([effect(name), going("name"), asked_for(true)]) == asking("unproven_destination")
	}
	decided([effect("write"), going("name"), asked_for(true), carrying("private")]) == allowed
	decided([effect("write"), going("name")]) == allowed
	decided([effect("write"), going("name"), asked_for(false)]) == ["ask", ["not_in_task", "unproven_destination"]]
	decided([effect("write"), going("outsider"), asked_for(true)]) == asking("unproven_destination")
	decided([effect("egress"), going("name")]) == allowed
	"unproven_destination" in decided([effect("destroy"), going("name")])[1]
}

test_what_an_outsider_picked_out_of_a_list_is_the_users_only_if_they_ask if {
	every name in ["write", "egress"] {
		decided([effect(name), going("picked"), asked_for(true)]) == allowed
		decided([effect(name), going("picked")]) == asking("unproven_destination")
	}
	every name in ["pay", "destroy", "credential", "execute"] {
		decided([effect(name), going("picked"), asked_for(true)]) == asking("unproven_destination")
	}
}

# An outsider's words.

told := ["/flow/payload", fix.told_by_outsider]

test_an_outsiders_words_are_carried_where_the_user_asked_for_it if {
	every name in ["write", "egress", "pay", "credential"] {
		decided([effect(name), going("task"), told, asked_for(true)]) == allowed
		decided([effect(name), going("task"), told]) == allowed
		"unproven_payload" in decided([effect(name), going("task"), told, asked_for(false)])[1]
	}
	every name in ["typed", "trusted_result"] {
		decided([effect("egress"), going(name), told, asked_for(true)]) == asking("unproven_payload")
		both := ["/flow/destinations", array.concat(fix.to("task"), fix.to(name))]
		decided([effect("egress"), both, told, asked_for(true)]) == asking("unproven_payload")
		decided([effect("egress"), going(name), told]) == allowed
	}
	decided([effect("write"), told]) == asking("unproven_payload")
	decided([effect("write"), told, asked_for(true)]) == asking("unproven_payload")
	decided([effect("write"), going("own_id"), told]) == asking("unproven_payload")
	decided([effect("write"), told, clean]) == allowed
	decided([told]) == asking("unproven_payload")
	decided([told, clean]) == allowed
	decided([effect("destroy"), going("task"), told]) == allowed
}

test_sending_to_nobody_in_particular_asks if {
	every name in ["egress", "pay"] {
		decided([effect(name)]) == asking("no_destination")
		decided([effect(name), clean_private]) == asking("no_destination")
		decided([effect(name), where]) == allowed
	}
	decided([effect("egress"), clean]) == allowed
	decided([effect("write")]) == allowed
}

test_what_a_tool_does_is_all_there_is_to_say if {
	every name in ["egress", "pay", "destroy", "credential", "execute"] {
		decided([effect(name), asked_for(true)]) == allowed
		"no_destination" in decided([effect(name)])[1]
		"no_destination" in decided([effect(name), asked_for(false)])[1]
	}
	decided([effect("execute"), asked_for(true), secret]) == allowed
	decided([effect("execute"), asked_for(true), carrying("secret")]) == ["deny", ["secret_leaves"]]
}

test_a_persons_standing_answer_is_good_for_what_is_sent_and_for_no_more if {
	every name in ["write", "egress"] {
		decided([effect(name), going("standing")]) == allowed
		decided([effect(name), going("standing"), carrying("private")]) == asking("private_data_leaves")
		decided([effect(name), going("standing"), carrying("secret")]) == ["deny", ["secret_leaves"]]
		decided([effect(name), going("standing"), secret]) == ["deny", ["secret_leaves"]]
		by_profile("strict", [effect(name), going("standing")]) == asking("unproven_destination")
		decided([effect(name), going("standing"), ["/flow/payload", fix.told_by_outsider]]) == asking("unproven_payload")
	}
	decided([effect("egress"), going("standing"), clean_private]) == allowed
	decided([effect("egress"), going("standing"), asked_for(false)]) == asking("not_in_task")
	decided([effect("egress"), going("standing"), linking("standing")]) == asking("unproven_link")
	every name in ["pay", "destroy", "credential"] {
		decided([effect(name), going("standing"), asked_for(true)]) == asking("unproven_destination")
	}
	"unproven_destination" in decided([effect("execute"), going("standing")])[1]
	decided([effect("destroy"), going("standing"), says("egress"), asked_for(true)]) == asking("unproven_destination")
	decided([page_of("standing")]) == asking("unproven_destination")
}

page_of(word) := ["/flow/destinations", [object.union(fix.to(word)[0], {"form": "url"})]]

# Links.

test_a_link_in_what_is_sent_needs_proof if {
	every proof in ["nobody", "outsider", "pointed", "own_id", "picked"] {
		decided([effect("egress"), going("tenant"), linking(proof)]) == asking("unproven_link")
	}
	every proof in ["tenant", "task", "typed", "trusted_result"] {
		decided([effect("egress"), going("tenant"), linking(proof)]) == allowed
	}
	decided([effect("egress"), going("tenant"), linking("nobody"), clean]) == allowed
	decided([effect("write"), linking("nobody")]) == allowed
}

test_what_is_not_told_of_a_place_is_the_worst if {
	decided([effect("egress"), going("tenant"), ["/flow/links", [{"path": "$.body"}]]]) == asking("unproven_link")
	decided([["/flow/destinations", [{"path": "$.to", "by": "nobody"}]]]) == asking("unproven_destination")
}

# The task.

test_what_the_user_did_not_ask_for_is_asked_about if {
	every name in ["egress", "pay", "destroy", "credential"] {
		decided([effect(name), going("trusted_result"), asked_for(false)]) == asking("not_in_task")
		decided([effect(name), going("trusted_result"), asked_for(true)]) == allowed
		decided([effect(name), going("task"), asked_for(false)]) == asking("not_in_task")
	}
	decided([effect("egress"), going("tenant"), asked_for(false), clean]) == allowed
	decided([effect("write"), going("tenant"), asked_for(false)]) == allowed
	every word in ["task", "pointed", "standing"] {
		decided([effect("write"), going(word), asked_for(false)]) == allowed
	}
	every word in ["typed", "trusted_result", "own_id"] {
		decided([effect("write"), going(word), asked_for(false)]) == asking("not_in_task")
	}
	every word in ["typed", "trusted_result", "own_id"] {
		both := ["/flow/destinations", array.concat(fix.to("task"), fix.to(word))]
		decided([effect("write"), both, asked_for(false)]) == allowed
	}
	every word in ["nobody", "outsider", "picked", "name"] {
		both := ["/flow/destinations", array.concat(fix.to("task"), fix.to(word))]
		"not_in_task" in decided([effect("write"), both, asked_for(false)])[1]
	}
	several := ["/flow/destinations", array.concat(fix.to("task"), fix.to("tenant"))]
	decided([effect("write"), several, asked_for(false)]) == allowed
	decided([effect("write"), asked_for(false)]) == asking("not_in_task")
	decided([asked_for(false)]) == allowed
}

left_open := ["/flow/left_open", true]

test_what_is_left_open_asks_for_what_can_be_taken_back if {
	decided([effect("egress"), going("own_id"), asked_for(false), left_open]) == allowed
	decided([effect("write"), going("name"), asked_for(false), left_open]) == allowed
	every name in ["pay", "destroy", "credential", "execute"] {
		"not_in_task" in decided([effect(name), going("task"), asked_for(false), left_open])[1]
	}
	decided([effect("pay"), where, asked_for(false), left_open]) == allowed
	decided([effect("pay"), where, asked_for(false)]) == asking("not_in_task")
	decided([effect("pay"), going("own_id"), where, asked_for(false), left_open]) == ["ask", ["not_in_task", "unproven_destination"]]
}

looked_up := ["/flow/destinations", [object.union(one, {"form": "name", "from": {"server": "mail", "minted": true, "clean": true}}) |
	some one in fix.to("own_id")
]]

test_what_was_given_out_before_anybody_could_ask_for_it_was_looked_up_for_the_user if {
	every name in ["pay", "destroy", "credential"] {
		decided([effect(name), looked_up]) == allowed
		decided([effect(name), going("own_id")]) == asking("unproven_destination")
		"unproven_destination" in decided([effect(name), looked_up, asked_for(false)])[1]
		"unproven_destination" in decided([effect(name), looked_up, asked_for(false), unheard])[1]
		"unproven_destination" in by_profile("strict", [effect(name), looked_up])[1]
	}
	decided([effect("execute"), looked_up]) == asking("untrusted_run")
	account := ["/flow/destinations", [object.union(one, {"form": "account"}) | some one in looked_up[1]]]
	decided([effect("pay"), account]) == asking("unproven_destination")
	decided([effect("pay"), account, asked_for(true)]) == asking("unproven_destination")
	decided([effect("destroy"), account, says("pay"), asked_for(true)]) == asking("unproven_destination")
	decided([effect("destroy"), account, asked_for(true)]) == allowed
	decided([effect("destroy"), account]) == allowed
	every word in ["name", "picked", "pointed", "outsider"] {
		clean_one := [object.union(one, {"from": {"clean": true}}) | some one in fix.to(word)]
		decided([effect("destroy"), ["/flow/destinations", clean_one]]) == asking("unproven_destination")
	}
}

unheard := ["/flow/unheard", true]

test_what_is_not_understood_denies_nothing_that_can_be_taken_back if {
	every name in ["write", "egress"] {
		every word in ["tenant", "task", "typed", "trusted_result", "pointed"] {
			decided([effect(name), going(word), asked_for(false), unheard]) == allowed
		}
		decided([effect(name), going("name"), asked_for(false), unheard]) == asking("unproven_destination")
		decided([effect(name), going("nobody"), asked_for(false), unheard]) == asking("unproven_destination")
		decided([effect(name), going("picked"), asked_for(false), unheard]) == asking("unproven_destination")
		decided([effect(name), going("task"), told, asked_for(false), unheard]) == asking("unproven_payload")
		by_profile("strict", [effect(name), going("task"), asked_for(false), unheard]) == asking("not_in_task")
	}
	every name in ["pay", "destroy", "credential", "execute"] {
		"not_in_task" in decided([effect(name), going("task"), asked_for(false), unheard])[1]
		"unproven_destination" in decided([effect(name), going("name"), asked_for(false), unheard])[1]
	}
	decided([effect("destroy"), going("task"), asked_for(false), unheard, says("write")]) == allowed
	"not_in_task" in decided([effect("destroy"), going("task"), asked_for(false), unheard, says("pay")])[1]
	"unproven_destination" in decided([effect("destroy"), going("name"), asked_for(false), unheard, says("write")])[1]
	decided([effect("egress"), asked_for(false), unheard]) == asking("no_destination")
	decided([effect("egress"), going("typed"), carrying("private"), asked_for(false), unheard]) == asking("private_data_leaves")
	decided([effect("write"), going("task"), lasting, asked_for(false), unheard]) == asking("lasting")
}

test_what_is_not_understood_and_goes_nowhere_stays_with_its_server if {
	every name in ["write", "egress"] {
		decided([effect(name), where, asked_for(false), unheard]) == allowed
		decided([effect(name), where, told, asked_for(false), unheard]) == asking("unproven_payload")
		decided([effect(name), where, secret, carrying("secret"), asked_for(false), unheard]) == ["deny", ["secret_leaves"]]
		by_profile("strict", [effect(name), asked_for(false), unheard]) == ["ask", ["no_destination", "not_in_task"]]
	}
	decided([effect("write"), asked_for(false), unheard]) == allowed
	decided([effect("pay"), where, asked_for(false), unheard]) == asking("not_in_task")
}

lasting := ["/flow/lasting", true]

test_what_goes_on_by_itself_is_asked_for if {
	decided([effect("egress"), going("tenant"), lasting]) == asking("lasting")
	decided([effect("egress"), going("tenant"), lasting, asked_for(true)]) == allowed
	decided([effect("write"), going("task"), lasting, asked_for(false)]) == asking("lasting")
	decided([effect("egress"), going("tenant"), lasting, clean]) == allowed
	decided([effect("read"), lasting]) == allowed
}

tools(names) := ["/task", {"prompt": null, "tools": names}]

test_a_tool_that_the_task_does_not_name_is_denied if {
	every names in [["search"], ["mail/search"], ["mail__search", "x"]] {
		decided([tools(names)]) == allowed
	}
	every names in [[], ["find"], ["wiki/search"]] {
		decided([tools(names), clean]) == ["deny", ["not_in_task"]]
	}
	decided([tools(null)]) == allowed
}

test_a_task_that_cannot_be_read_includes_no_tool if {
	every wrong in ["search", 7, false, {"search": "search"}] {
		decided([tools(wrong), clean]) == ["deny", ["not_in_task"]]
	}
	every wrong in ["search", 7, ["search"]] {
		decided([["/task", wrong], clean]) == ["deny", ["not_in_task"]]
	}
	without(["/target/name"], [tools(["search"]), clean])[0] == "deny"
	decided([["/task", {"prompt": null}]]) == allowed
}

# Effects that no destination makes good.

test_a_program_is_not_run_in_an_untrusted_run if {
	decided([effect("execute"), going("task")]) == asking("untrusted_run")
	decided([effect("execute"), going("task"), asked_for(true)]) == allowed
	decided([effect("execute")]) == ["ask", ["no_destination", "untrusted_run"]]
	decided([effect("execute"), clean]) == allowed
}

test_an_unknown_effect_is_the_worst_that_nobody_declared if {
	every name in ["unheard", ""] {
		decided([effect(name)]) == asking("no_destination")
		decided([effect(name), clean]) == allowed
	}
}

test_a_label_that_is_not_there_is_untrusted if {
	decided([effect("execute"), going("task"), ["/flow/label", {}]]) == asking("untrusted_run")
}

test_a_call_without_flow_is_denied if {
	every path in ["/flow", "/flow/label"] {
		question := json.patch(fix.read, [{"op": "remove", "path": path}])
		answer := douane.decision with input as question with data.douane.config as fix.config
		fix.outcome(answer) == ["deny", ["no_flow"]]
	}
}

# What lacks, or is no word that we know.

without(paths, changes) := fix.outcome(answer) if {
	question := json.patch(fix.with_changes(changes), [{"op": "remove", "path": path} | some path in paths])
	answer := douane.decision with input as question with data.douane.config as fix.config
}

unreadable := [null, "x", 7, true, {"x": "y"}]

test_what_is_known_of_a_call_has_its_form if {
	every place in ["/flow/label", "/flow/destinations", "/flow/payload"] {
		without([place], []) == ["deny", ["no_flow"]]
		every wrong in [null, "x", 7, true] {
			"no_flow" in decided([[place, wrong]])[1]
		}
	}
	every place in ["/flow/destinations", "/flow/payload", "/flow/links"] {
		"no_flow" in decided([[place, {"0": fix.to("tenant")[0]}]])[1]
	}
	every wrong in unreadable {
		"no_flow" in decided([["/flow", wrong]])[1]
		"no_flow" in decided([["/flow/payload", [{"path": "$.body", "said": "", "matches": wrong}]]])[1]
	}
	every place in ["/flow/destinations", "/flow/payload", "/flow/links"] {
		every wrong in [null, "x", 7, true, ["x"]] {
			"no_flow" in decided([[place, [wrong]]])[1]
		}
	}
	"no_flow" in decided([["/flow/payload", [{"path": "$.body", "said": ""}]]])[1]
}

newer := ["/flow/asked_for", "/flow/told", "/flow/left_open", "/flow/unheard", "/flow/lasting", "/flow/links", "/flow/names_where"]

test_a_read_of_which_only_the_contracts_members_are_told_is_one if {
	without(newer, []) == allowed
	without(newer, [going("nobody")]) == allowed
	without(newer, [page]) == asking("unproven_destination")
}

test_what_is_not_told_of_the_words_asks_for_nothing if {
	without(["/flow/asked_for"], [effect("egress"), going("task")]) == asking("not_in_task")
	every wrong in ["true", 1, {}] {
		decided([effect("egress"), going("task"), asked_for(wrong)]) == asking("not_in_task")
		every name in ["/flow/left_open", "/flow/unheard"] {
			decided([effect("egress"), going("task"), asked_for(false), [name, wrong]]) == asking("not_in_task")
		}
	}
}

test_what_may_go_on_by_itself_is_asked_for if {
	without(["/flow/lasting"], [effect("write"), going("task")]) == asking("lasting")
	every wrong in unreadable {
		decided([effect("write"), going("task"), ["/flow/lasting", wrong]]) == asking("lasting")
	}
}

test_where_nobody_says_whether_it_could_say_where_to_it_says_nothing if {
	without(["/flow/names_where"], [effect("egress")]) == asking("no_destination")
	without(["/flow/names_where"], [effect("egress"), asked_for(true)]) == asking("no_destination")
	every wrong in [null, "x", 0] {
		decided([effect("egress"), asked_for(true), ["/flow/names_where", wrong]]) == asking("no_destination")
	}
}

test_links_of_which_nothing_is_told_are_not_meant if {
	without(["/flow/links"], [effect("egress"), going("tenant")]) == asking("unproven_link")
}

test_what_an_unlabelled_tool_does_not_tell_is_the_worst if {
	account := ["/flow/destinations", [object.union(one, {"form": "account"}) | some one in looked_up[1]]]
	formless := ["/flow/destinations", [object.remove(one, ["form"]) | some one in looked_up[1]]]
	without(["/flow/told"], [effect("destroy"), account, asked_for(true)]) == asking("unproven_destination")
	without(["/flow/told"], [effect("destroy"), going("task"), linking("nobody"), asked_for(true)]) == asking("unproven_link")
	without(["/flow/told"], [effect("destroy"), going("task"), told, asked_for(false)])[1][0] == "not_in_task"
	every wrong in ["x", "", 7, ["read"]] {
		decided([effect("destroy"), account, asked_for(true), says(wrong)]) == asking("unproven_destination")
		"unproven_payload" in decided([effect("destroy"), going("typed"), told, asked_for(true), says(wrong)])[1]
	}
	every form in [null, "", "xyz", 7] {
		odd := ["/flow/destinations", [object.union(one, {"form": form}) | some one in looked_up[1]]]
		decided([effect("pay"), odd, asked_for(true)]) == asking("unproven_destination")
	}
	decided([effect("pay"), formless, asked_for(true)]) == asking("unproven_destination")
	decided([effect("pay"), looked_up, asked_for(true)]) == allowed
}

test_a_place_without_a_path_is_one if {
	nowhere := [object.remove(one, ["path"]) | some one in fix.to("nobody")]
	listed := [object.remove(one, ["path"]) | some one in fix.to("typed")]
	every places in [nowhere, [object.union(nowhere[0], {"path": 7})], [{}]] {
		decided([effect("write"), ["/flow/destinations", places]]) == asking("unproven_destination")
		"secret_leaves" in decided([effect("write"), ["/flow/destinations", places], secret])[1]
	}
	decided([effect("egress"), going("tenant"), ["/flow/links", nowhere]]) == asking("unproven_link")
	decided([effect("egress"), ["/flow/destinations", listed], carrying("private")]) == asking("private_data_leaves")
	decided([effect("egress"), ["/flow/destinations", listed], carrying("secret")]) == ["deny", ["secret_leaves"]]
	"private data would go to $" in messages([effect("egress"), ["/flow/destinations", listed], carrying("private")])
	every path in [null, 7, ["$.body"]] {
		part := [object.union(one, {"path": path}) | some one in fix.carrying("private")]
		decided([effect("write"), ["/flow/payload", part], clean]) == asking("private_data_leaves")
	}
}

test_one_place_that_nobody_vouches_for_leaves_an_outsiders_words_unmeant if {
	formed := [object.remove(one, ["integrity"]) | some one in fix.to("task")]
	decided([effect("egress"), ["/flow/destinations", formed], told]) == asking("unproven_payload")
	both := ["/flow/destinations", array.concat(fix.to("task"), formed)]
	decided([effect("egress"), both, told]) == asking("unproven_payload")
}

test_words_of_which_nobody_says_whose_they_are_are_an_outsiders if {
	every said in [null, "x", 7, {}] {
		part := [object.union(one, {"said": said}) | some one in fix.told_by_outsider]
		decided([effect("write"), ["/flow/payload", part]]) == asking("unproven_payload")
	}
	unsaid := [object.remove(one, ["said"]) | some one in fix.told_by_outsider]
	decided([effect("write"), ["/flow/payload", unsaid]]) == asking("unproven_payload")
}

test_a_label_that_is_no_word_is_a_secret_ones if {
	every level in [null, "x", 7, ["secret"]] {
		decided([effect("egress"), going("nobody"), ["/flow/label", fix.label("trusted", level)]])[0] == "deny"
		decided([effect("egress"), going("task"), ["/flow/label", fix.label("trusted", level)]]) == allowed
	}
	decided([effect("egress"), going("nobody"), ["/flow/label", {}]])[0] == "deny"
}

test_flow_is_not_missed_in_a_list if {
	every name in ["write", "egress", "pay", "destroy", "credential", "execute"] {
		answer := douane.decision with input as fix.listed([effect(name)])
			with data.douane.config as fix.config
		fix.outcome(answer) == allowed
	}
}

# Confidential data.

test_private_data_goes_to_the_tenant_and_to_whom_the_user_names if {
	every proof in ["tenant", "task", "pointed"] {
		decided([effect("egress"), going(proof), carrying("private")]) == allowed
	}
	every proof in ["typed", "trusted_result"] {
		decided([effect("egress"), going(proof), carrying("private")]) == asking("private_data_leaves")
		decided([effect("egress"), going(proof), carrying("private"), asked_for(true)]) == allowed
	}
	decided([effect("write"), going("trusted_result"), carrying("private")]) == asking("private_data_leaves")
	decided([effect("write"), going("own_id"), carrying("private")]) == allowed
	decided([effect("egress"), going("name"), carrying("private"), asked_for(true)]) == asking("private_data_leaves")
}

test_private_data_goes_to_a_name_beside_one_that_the_user_gave if {
	both := ["/flow/destinations", array.concat(fix.to("task"), fix.to("name"))]
	decided([effect("egress"), where, both, carrying("private"), asked_for(true)]) == allowed
	decided([effect("egress"), where, both, carrying("private")]) == asking("private_data_leaves")
}

test_private_data_goes_to_the_party_that_a_listed_identifier_stands_beside if {
	listed := [object.union(one, {"form": "name", "from": {"server": "hr", "minted": true}}) |
		some one in fix.to("trusted_result")
	]
	every proof in ["task", "own_id"] {
		both := ["/flow/destinations", array.concat(listed, fix.to(proof))]
		decided([effect("egress"), where, both, carrying("private")]) == allowed
	}

	# A person of a list, an address, and one beside whom nobody stands are parties themselves.
	every one in [fix.to("trusted_result"), [object.union(listed[0], {"form": "email"})]] {
		both := ["/flow/destinations", array.concat(one, fix.to("own_id"))]
		decided([effect("egress"), where, both, carrying("private")]) == asking("private_data_leaves")
	}
	alone := ["/flow/destinations", listed]
	decided([effect("egress"), where, alone, carrying("private")]) == asking("private_data_leaves")
	tenants := ["/flow/destinations", array.concat(listed, fix.to("tenant"))]
	decided([effect("egress"), where, tenants, carrying("private")]) == asking("private_data_leaves")
}

# What nobody labelled.

test_what_a_tool_says_that_it_does_decides_whose_choice_is_enough_if_asked_for if {
	decided([effect("destroy"), going("pointed"), says("egress"), asked_for(true)]) == allowed
	decided([effect("destroy"), going("pointed"), says("egress")]) == asking("unproven_destination")
	decided([effect("destroy"), going("name"), says("pay"), asked_for(true)]) == asking("unproven_destination")
	decided([effect("destroy"), going("name"), says(null), asked_for(true)]) == allowed
}

test_an_outsiders_words_are_not_carried_by_what_nobody_labelled if {
	"unproven_payload" in decided([effect("destroy"), going("task"), told, says("write"), asked_for(false)])[1]
	decided([effect("destroy"), going("task"), told, says("write"), asked_for(true)]) == allowed
	decided([effect("destroy"), going("task"), told, says("destroy")]) == allowed
	decided([effect("destroy"), going("task"), told, says("read")]) == allowed
}

test_links_of_what_nobody_labelled_are_proven if {
	decided([effect("destroy"), going("task"), linking("nobody"), asked_for(true)]) == allowed
	decided([effect("destroy"), going("task"), linking("nobody"), asked_for(true), says("egress")]) == asking("unproven_link")
}

says(effect) := ["/flow/told", effect]

test_private_data_goes_to_no_unnamed_place if {
	decided([effect("egress"), clean, carrying("private")]) == asking("private_data_leaves")
	decided([effect("egress"), where, carrying("private")]) == allowed
}

test_public_data_may_leave if {
	every level in ["public", "internal"] {
		decided([effect("egress"), going("typed"), carrying(level)]) == allowed
	}
}

test_what_nobody_labelled_is_private if {
	decided([effect("egress"), going("typed"), carrying("unheard")]) == asking("private_data_leaves")
}

test_a_read_of_an_address_may_not_carry_private_data_there if {
	decided([going("typed"), carrying("private")]) == asking("private_data_leaves")
	decided([going("typed"), carrying("public")]) == allowed
	decided([carrying("private")]) == allowed
}

test_a_write_to_nobody_carries_nothing_out if {
	decided([effect("write"), carrying("private")]) == allowed
	decided([effect("destroy"), clean, going("tenant"), carrying("private")]) == allowed
}

test_a_secret_goes_nowhere_but_home_to_the_tenant if {
	every name in ["egress", "pay", "write"] {
		decided([effect(name), going("task"), carrying("secret")]) == ["deny", ["secret_leaves"]]
		decided([effect(name), going("tenant"), carrying("secret")]) == allowed
	}
	every name in ["read", "write", "destroy"] {
		anywhere := [object.union(part, {"path": "$"}) | some part in fix.carrying("secret")]
		decided([effect(name), ["/flow/payload", anywhere]])[0] == "deny"
		decided([effect(name), going("name"), ["/flow/payload", anywhere]])[0] == "deny"
	}
}

test_a_secret_goes_to_no_other_server_where_the_call_says_not_where_to if {
	every name in ["read", "write", "egress", "pay", "destroy"] {
		"secret_leaves" in decided([effect(name), where, carrying("secret")])[1]
	}
	decided([effect("egress"), where, secret]) == allowed
}

test_a_run_that_saw_a_secret_goes_on_to_what_is_proven if {
	decided([effect("egress"), going("task"), secret]) == allowed
	decided([effect("egress"), going("nobody"), secret]) == ["deny", ["secret_leaves"]]
	decided([effect("execute"), secret]) == ["deny", ["secret_leaves"]]
	decided([page, secret]) == ["deny", ["secret_leaves"]]
	decided([effect("egress"), secret, where]) == allowed
	decided([effect("write"), secret]) == allowed
}

# What servers ask of clients.

asked_by_server(name, changes) := decided(array.concat(
	[["/target/kind", "server_request"], ["/target/name", name]],
	changes,
))

test_a_server_gets_no_text_out_of_a_run_that_saw_secrets if {
	asked_by_server("sampling/createMessage", [secret]) == ["deny", ["secret_leaves"]]
	asked_by_server("sampling/createMessage", []) == allowed
	asked_by_server("elicitation/create", [secret]) == allowed
}

test_a_server_does_not_get_what_others_have_said if {
	all := ["/arguments", {"includeContext": "allServers"}]
	asked_by_server("sampling/createMessage", [all]) == ["deny", ["context_leaves"]]
	asked_by_server("sampling/createMessage", [all, open]) == allowed
	asked_by_server("sampling/createMessage", [["/arguments", {"includeContext": "thisServer"}]]) == allowed
	asked_by_server("roots/list", [all]) == allowed
}

# Profiles.

test_strict_trusts_nothing_that_an_outsider_wrote if {
	every word in ["pointed", "own_id", "outsider", "name", "picked"] {
		every name in ["write", "egress"] {
			by_profile("strict", [effect(name), going(word), asked_for(true)]) == asking("unproven_destination")
		}
	}
	by_profile("strict", [going("name")]) == asking("unproven_destination")
	by_profile("strict", [effect("egress"), going("trusted_result"), clean]) == asking("unproven_destination")
	by_profile("strict", [effect("egress"), going("tenant")]) == allowed
}

test_strict_asks_before_what_cannot_be_undone if {
	every name in ["pay", "destroy", "credential"] {
		by_profile("strict", [effect(name), going("task")]) == asking("untrusted_run")
		by_profile("strict", [effect(name), going("task"), clean]) == allowed
	}
	by_profile("strict", [effect("execute"), going("task")]) == ["deny", ["untrusted_run"]]
}

test_observe_tells_and_lets_pass if {
	by_profile("observe", [effect("egress"), going("nobody")]) == ["allow", ["unproven_destination"]]
	by_profile("observe", [effect("egress"), going("task"), carrying("secret")]) == ["allow", ["secret_leaves"]]
	by_profile("observe", [effect("egress"), going("task")]) == allowed
	by_profile("observe", [effect("egress"), ["/target/pin/status", "drifted"]]) == ["deny", ["pin_not_approved"]]
}

test_an_unknown_profile_is_the_strictest if {
	every name in ["lax", "", null] {
		by_profile(name, [going("tenant")]) == ["deny", ["untrusted_run"]]
	}
}

# Tables that cannot be read.

with_effects(table, changes) := fix.outcome(answer) if {
	answer := douane.decision with input as fix.with_changes(changes)
		with data.douane.config as fix.config
		with data.douane.flow.profiles as {"default": {"effects": table}}
}

test_the_table_can_deny_and_a_slip_in_it_does if {
	every word in ["deny", "alow"] {
		cells := {"untrusted_run": word, "proof": "never", "unlabelled": "allow", "sends": "never"}
		with_effects({"write": cells}, [effect("write")]) == ["deny", ["untrusted_run"]]
	}
}

test_a_table_that_cannot_be_read_is_the_strictest if {
	every table in [{}, null, {"read": null}, {"read": "allow"}] {
		with_effects(table, [going("nobody")]) == ["deny", ["untrusted_run"]]
	}
}

test_a_table_can_waive_the_proof if {
	cells := {"untrusted_run": "allow", "proof": "never", "unlabelled": "ask", "sends": "never"}
	with_effects({"egress": cells}, [effect("egress"), going("nobody")]) == allowed
	with_effects({"egress": cells}, [effect("egress"), clean_private]) == allowed
}

test_a_row_without_its_other_cells_is_the_strictest if {
	with_effects({"read": {"untrusted_run": "allow"}}, [carrying("private")]) == [
		"ask",
		["no_destination", "private_data_leaves"],
	]
	with_effects({"read": {"untrusted_run": "allow"}}, [going("tenant"), linking("nobody")]) == [
		"ask",
		["unproven_destination", "unproven_link"],
	]
}

test_without_the_table_nobody_may_receive_anything_confidential if {
	cells := {"egress": data.douane.flow.profiles["default"].effects.egress}
	with_effects(cells, [effect("egress"), going("tenant"), secret]) == ["deny", ["secret_leaves"]]
}

# What is no tool.

others := ["resource", "template", "prompt", "completion"]

other(kind) := ["/target", {"server": "mail", "kind": kind, "name": "x", "effect": "", "pin": {"status": "approved"}}]

test_what_is_no_tool_needs_proof_of_where_it_goes if {
	every kind in others {
		decided([other(kind), going("nobody")]) == asking("unproven_destination")
		decided([other(kind), going("task")]) == allowed
	}
}

test_what_is_no_tool_goes_anywhere_while_nothing_is_at_stake if {
	every kind in others {
		decided([other(kind), going("nobody"), clean_private]) == allowed
		decided([other(kind), going("nobody"), open]) == allowed
		decided([other(kind)]) == allowed
	}
}

test_private_data_leave_by_no_other_way if {
	every kind in others {
		decided([other(kind), carrying("private")]) == asking("private_data_leaves")
		decided([other(kind), carrying("private"), clean_private]) == asking("private_data_leaves")
		decided([other(kind), carrying("public")]) == allowed
		decided([other(kind), carrying("secret")]) == ["deny", ["secret_leaves"]]
		decided([other(kind), going("nobody"), secret]) == ["deny", ["secret_leaves"]]
		decided([other(kind), secret]) == allowed
	}
}

test_an_answer_is_judged_by_what_it_says if {
	answer := other("server_request")
	every method in ["elicitation/create", "roots/list", "sampling/createMessage"] {
		named := ["/target/name", method]
		decided([answer, named]) == allowed
		decided([answer, named, carrying("private")]) == asking("private_data_leaves")
		decided([answer, named, carrying("secret")])[0] == "deny"
	}
}

test_what_a_tool_is_told_besides_its_arguments_is_sent if {
	told := [["/flow/payload", [object.union(part, {"path": path}) | some part in fix.carrying("private")]] |
		some path in ["$.inputResponses.who.content.name", "$.requestState", "$._meta"]
	]
	every payload in told {
		every name in ["read", "write", "destroy"] {
			"private_data_leaves" in decided([effect(name), going("typed"), payload])[1]
		}
	}
}

test_observing_tells_of_what_is_no_tool if {
	every kind in others {
		by_profile("observe", [other(kind), going("nobody")])[0] == "allow"
	}
}
