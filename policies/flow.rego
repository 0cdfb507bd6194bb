# Flow. What a call may do and where data may go, by the tool's effect and by what is known of the
# run: the tables `flow` in data.yaml. What a call reaches must have been chosen by somebody who may;
# that a value was not seen in bad company proves nothing, for one base64 is enough to hide it.
# Everything here is in `flow_ask` and `flow_deny`; a profile that only observes reports it.
package douane

ask contains reason if {
	profile_acts
	some reason in flow_ask
}

deny contains reason if {
	profile_acts
	some reason in flow_deny
}

# What the profile would have asked or refused, had it acted.
observed contains {"code": reason.code, "message": concat("", ["observed only: ", reason.message])} if {
	not profile_acts
	some reason in (flow_ask | flow_deny)
}

default profile := {}

profile := data.douane.flow.profiles[data.douane.flow.profile]

profile_acts if not profile.acts == false

default tables := {}

tables := data.douane.flow.profiles[object.get(profile, "like", data.douane.flow.profile)]

is_tool_call if {
	input.phase == "call"
	input.target.kind == "tool"
	not runs_code
}

# What is no tool: what it says reaches its server, and a URI whomever it names.
is_other_call if {
	input.phase == "call"
	input.target.kind in {"resource", "template", "prompt", "completion", "server_request", "server"}
}

is_judged if is_tool_call
is_judged if is_other_call

# An effect that is unknown or missing is the worst one that nobody declared.
default effect := "destroy"

effect := input.target.effect if is_object(tables.effects[input.target.effect])

# What is no tool asks for something, and writes nothing.
effect := "read" if is_other_call

default row := {}

row := tables.effects[effect] if is_object(tables.effects[effect])

# Only a label that says so is trusted, and not private: a run that nobody labelled is neither.
run_trusted if input.flow.label.integrity == "trusted"

run_private if not run_open

run_open if input.flow.label.confidentiality in {"public", "internal"}

flow_deny contains {"code": "no_flow", "message": "nothing is known of the data of this call"} if {
	is_judged
	not is_told
}

is_told if {
	is_object(input.flow.label)
	every list in [input.flow.destinations, object.get(input.flow, "links", []), input.flow.payload] {
		is_array(list)
		every one in list { is_object(one) }
	}
	every part in input.flow.payload { is_array(part.matches) }
}

# The task. A host that declares which tools it needs has asked for no others.
flow_deny contains {"code": "not_in_task", "message": "the declared task does not include this tool"} if {
	is_tool_call
	not in_task
}

in_task if not input.task
in_task if object.get(input.task, "tools", null) == null

in_task if {
	is_array(input.task.tools)
	some name in input.task.tools
	name in ({input.target.name} | {concat(joint, [input.target.server, input.target.name]) | some joint in ["/", "__"]})
}

# Example: the user asked when they are free, and mail is to be sent to a colleague.
flow_ask contains {"code": "not_in_task", "message": "the user's words do not ask for what this tool does"} if {
	is_tool_call
	proof_needed
	not object.get(input.flow, "asked_for", false) in {true, null}
	not task_excused
}

# Example: a page wants a filter that hides what warns of it, and nobody declares what the user wants.
flow_ask contains {"code": "lasting", "message": "the tool sets up what goes on by itself, and nothing shows that it is asked for"} if {
	is_tool_call
	not run_trusted
	not effect == "read"
	object.get(input.flow, "lasting", true) != false
	not asked_for
}

task_excused if row.task == "any"
task_excused if asked

# What is done to what the user, the operator or a person who answered chose is judged by that, if no outsider chose the rest.
task_excused if {
	row.task == "place"
	input.flow.destinations[_].by in {"tenant", "task", "pointed", "standing"}
	every one in input.flow.destinations { one.by in {"tenant", "task", "pointed", "standing", "typed", "trusted_result", "own_id"} }
}

# "Put him down for Friday": a deed that no table knows denies none that can be taken back, and asks
# for none: what is left to be judged is where it goes. What goes nowhere stays with its server.
task_excused if {
	told.task in {"open", "place"}
	input.flow.unheard == true
}

asked if asked_for

# "Work on ticket 7" asks for what ticket 7 takes, short of what reaches somebody and cannot be taken back.
asked if {
	row.task in ({"open", "place"} | {"named" | goes_nowhere; not names_destination})
	input.flow.left_open == true
}

asked_for if input.flow.asked_for == true

# Effects that no destination makes good. A word that is not known reads as the strictest.
# Example: a web page was read, and a command is to be run.
untrusted_run := "allow" if {
	row.untrusted_run == "asked"
	asked_for
} else := object.get(row, "untrusted_run", "deny")

flow_ask contains {"code": "untrusted_run", "message": untrusted_message} if {
	is_tool_call
	not run_trusted
	untrusted_run in {"ask", "asked"}
}

flow_deny contains {"code": "untrusted_run", "message": untrusted_message} if {
	is_tool_call
	not run_trusted
	not untrusted_run in {"allow", "asked", "ask"}
}

untrusted_message := concat("", ["the run has seen untrusted data, and the tool's effect is ", effect])

# Destinations.
# Example: a mail from outside says where to pay, and that is where the money would go.
flow_ask contains {"code": "unproven_destination", "message": at("nothing shows that this destination is meant: ", destination)} if {
	is_judged
	proof_needed
	some destination in input.flow.destinations
	reaches(destination)
	not accepted(destination)
}

# What says not where it stands may stand anywhere, also beside the arguments.
default path_of(_) := "$"

path_of(one) := one.path if is_string(one.path)
at(text, one) := concat("", [text, path_of(one)])

proof_needed if not proof_waived

proof_waived if row.proof == "never"

proof_waived if {
	row.proof in ({"private", "untrusted"} | {"either" | run_open})
	run_trusted
}

proof_waived if {
	row.proof == "private"
	input.flow.label.confidentiality == "public"
}

accepted(destination) if destination.by in row.accepts

accepted(destination) if {
	asked
	destination.by in array.concat(told.accepts, told.if_asked)
	destination.by != "standing"
	not is_somebodys_account(destination)
}

# Of a tool that nobody labelled, what it says that it does decides whose choice is enough if asked for.
# A person's standing answer is for what it does, as far as anybody knows.
told := object.get(tables.effects, says, row)

default says := ""

says := null if input.flow.told == null
says := input.flow.told if is_object(tables.effects[input.flow.told])

accepted(destination) if {
	input.flow.asked_for == null
	destination.by in row.undeclared
}

# What a server gave out before anybody outside could ask for it was looked up for the user.
accepted(destination) if {
	input.flow.asked_for == null
	"looked_up" in row.undeclared
	destination.by == "own_id"
	destination.from.clean == true
	not is_somebodys_account(destination)
}

# Example: a stranger's transfer of one cent, and its list has their account as `counterparty_id`.
is_somebodys_account(destination) if {
	{effect, says} & {"pay", ""} != set()
	not object.get(destination, "form", "account") in {"name", "email", "url", "text"}
	destination.by == "own_id"
}

# A read reaches nobody by a name; a longer text may carry what was read.
reaches(_) if is_other_call
reaches(_) if not row.names == "free"
reaches(destination) if not object.get(destination, "form", "url") in {"name", "email", "account"}

# Example: a stranger's note wants a new address in a profile, and no argument names whose.
flow_ask contains {"code": "unproven_payload", "message": "nothing shows that an outsider's words are meant"} if {
	is_tool_call
	not run_trusted
	not says in {"read", "destroy"}
	some part in input.flow.payload
	not object.get(part, "said", "outsider") in {"", "pointed"}
	not words_meant
}

# The words ask for the deed, and it is done to what nobody may have picked from a list.
words_meant if {
	names_destination
	every one in input.flow.destinations { one.by in {"tenant", "task", "pointed", "own_id", "name"} }
	asked
}

words_meant if {
	names_destination
	input.flow.asked_for == null
	every one in input.flow.destinations { one.integrity == "trusted" }
}

# Example: a tool posts to one fixed place, which no argument names.
flow_ask contains {"code": "no_destination", "message": concat("", ["the tool's effect is ", effect, ", and no argument says what it reaches"])} if {
	is_tool_call
	destination_needed
	not names_destination
	not needs_no_destination
}

destination_needed if proof_needed

destination_needed if {
	not row.proof == "never"
	run_private
}

names_destination if count(input.flow.destinations) > 0

needs_no_destination if goes_nowhere
needs_no_destination if {row.empty, row.unlabelled} == {"allow"}

# "Unlock my front door": what the tool does is all there is to say.
needs_no_destination if {
	input.flow.names_where == false
	"allow" in ({object.get(row, "unlabelled", "ask")} | {"allow" | asked_for})
}

# Links. Whoever follows one goes where it leads, so it is a destination of what is sent.
# Example: a calendar entry from outside has all participants get "notes" under a short link.
flow_ask contains {"code": "unproven_link", "message": at("nothing shows that this link is meant: ", link)} if {
	is_tool_call
	proof_needed
	not object.get(row, "links", "proven") in links_free
	some link in object.get(input.flow, "links", [{}])
	not object.get(link, "by", "nobody") in {"tenant", "task", "typed", "trusted_result"}
}

links_free := {"any", "labelled"} - {"labelled" | object.get(input.flow, "told", "") != null}

# Confidential data: what of earlier results is found in what is sent. Not to be found proves nothing.
carried contains level_of(found) if {
	some part in input.flow.payload
	some found in part.matches
}

# What cannot be traced to a source that we know is private.
default level_of(_) := "private"

level_of(found) := "secret" if found.confidentiality == "secret"
level_of(found) := "public" if found.confidentiality in {"public", "internal"}

# Example: a paragraph of a private file stands in a mail to an address from the contacts.
flow_ask contains {"code": "private_data_leaves", "message": concat("", ["private data would go to ", place])} if {
	sends_out
	"private" in carried
	some place in barred("private")
}

# A secret goes nowhere of itself. With one in the run, nothing goes where nobody proved.
flow_deny contains {"code": "secret_leaves", "message": concat("", ["this run has seen secrets, and data would go to ", place])} if {
	sends_out
	some level in secrets_at_stake
	some place in barred(level)
}

barred(level) := {path_of(one) | some one in input.flow.destinations; not may_receive(one, level)} | {"no named place" |
	not names_destination
	not goes_nowhere
	not asked_of_it(level)
}

# Where the call could say where to and does not, it stays with the server, which has not seen the secret.
flow_deny contains {"code": "secret_leaves", "message": "a secret of this run would go to a server that did not give it"} if {
	is_tool_call
	"secret" in carried
	not names_destination
	stays_there
	not row.sends == "never"
}

stays_there if goes_nowhere
stays_there if not sends_out

# A tool that names no place, and that the words ask for, says nothing but what they say.
asked_of_it("seen") if asked_for

secrets_at_stake contains "secret" if "secret" in carried
secrets_at_stake contains "seen" if not object.get(input.flow.label, "confidentiality", "secret") in {"public", "internal", "private"}

may_receive(destination, level) if destination.by in tables.confidential[level]
may_receive(destination, "private") if destination.by in tables.confidential[concat("_", ["private", row.sends])]

may_receive(destination, "private") if {
	asked_for
	destination.by in tables.confidential.private_if_asked
}

# "Publish it in ledgerly": whose ledgerly it is, the name beside it says.
may_receive(destination, "private") if {
	asked_for
	destination.by == "name"
	"task" in {one.by | some one in input.flow.destinations}
}

may_receive(destination, "seen") if not reaches(destination)

# A person who answers for a place for good has seen no secret that is to come.
may_receive(destination, "seen") if {
	tables.confidential
	accepted(destination)
	destination.by != "standing"
}

# An identifier that a trusted author lists is no party: what is sent goes to the one beside it.
may_receive(destination, "private") if {
	destination.form == "name"
	destination.from.minted == true
	destination.by in {"typed", "trusted_result"}
	{one.by | some one in input.flow.destinations} & {"task", "own_id"} != set()
}

goes_nowhere if {
	input.flow.names_where == true
	row.empty == "allow"
}

# Example: a URI that nobody gave out; an answer to a form with a line of a private file in it.
sends_out if {
	is_other_call
	count(input.flow.payload) + count(input.flow.destinations) > 0
}

# What a tool's server asked the user for is told to it, and a secret wherever it stands.
sends_out if {
	is_tool_call
	some part in input.flow.payload
	regex.match(`^\$($|\.(inputResponses|requestState|_meta))`, path_of(part))
}

# A write, and a read of an address, reach others only through the destinations they name.
sends_out if {
	is_tool_call
	not object.get(row, "sends", "always") in ({"never"} | {"named" | not names_destination})
}
