# Flow. What a call may do and where data may go, by the tool's effect and by what is known of the
# run: the tables `flow` in data.yaml. A destination needs positive proof that it is good. That it
# was not seen in bad company proves nothing: one base64 is enough to hide it.
#
# Everything here is in `flow_ask` and `flow_deny`. A profile that only observes reports it and does
# not act on it. Lists have no flow, so nothing here speaks in that phase.
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

# Only the word `false` stops a profile from acting.
default profile_acts := true

profile_acts := false if profile.acts == false

default tables := {}

tables := data.douane.flow.profiles[object.get(profile, "like", data.douane.flow.profile)]

is_tool_call if {
	input.phase == "call"
	input.target.kind == "tool"
	not runs_code
}

# What is no tool: a resource that is read or followed, a prompt, a completion, an answer to what a
# server asked, a message of the protocol's own. Whatever such a call says reaches its server, and a
# URI whomever it names.
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

# Only a label that says so is trusted: a run that nobody labelled is not.
default run_trusted := false

run_trusted if input.flow.label.integrity == "trusted"

default run_private := true

run_private := false if input.flow.label.confidentiality in {"public", "internal"}

flow_deny contains {"code": "no_flow", "message": "nothing is known of the data of this call"} if {
	is_judged
	not input.flow.label
}

# The task. A host that declares which tools it needs has asked for no others.
flow_deny contains {"code": "not_in_task", "message": "the declared task does not include this tool"} if {
	is_tool_call
	is_array(input.task.tools)
	every name in tool_names {
		not name in input.task.tools
	}
}

tool_names := {
	input.target.name,
	concat("/", [input.target.server, input.target.name]),
	concat("__", [input.target.server, input.target.name]),
}

# Example: the user asked when they are free, and mail is to be sent to a colleague.
flow_ask contains {"code": "not_in_task", "message": "the user's words do not ask for what this tool does"} if {
	is_tool_call
	proof_needed
	not task_free
	input.flow.asked_for == false
	not task_names_destination
}

task_free if row.task == "any"

task_names_destination if {
	some destination in input.flow.destinations
	destination.proof == "task"
}

# Effects that no destination makes good. A word in the table that is not one of its words reads as
# the strictest: "allow" alone lets pass.
# Example: a web page was read, and a command is to be run.
untrusted_run := object.get(row, "untrusted_run", "deny")

flow_ask contains {"code": "untrusted_run", "message": untrusted_message} if {
	is_tool_call
	not run_trusted
	untrusted_run == "ask"
}

flow_deny contains {"code": "untrusted_run", "message": untrusted_message} if {
	is_tool_call
	not run_trusted
	not untrusted_run in {"allow", "ask"}
}

untrusted_message := concat("", ["the run has seen untrusted data, and the tool's effect is ", effect])

# Destinations.
# Example: a mail from outside says where to pay, and that is where the money would go.
flow_ask contains {"code": "unproven_destination", "message": message} if {
	is_judged
	proof_needed
	some destination in input.flow.destinations
	not accepted(destination)
	message := concat("", ["nothing shows that this destination is meant: ", destination.path])
}

proof_needed if not proof_waived

proof_waived if proof_never

proof_waived if {
	row.proof == "private"
	not guarded
}

proof_waived if {
	row.proof in {"private", "untrusted"}
	run_trusted
}

guarded if {
	not run_trusted
	run_private
}

accepted(destination) if {
	some word in proofs(destination)
	word in row.accepts
}

# The words for why a destination is good, which the tables accept or do not.
proofs(destination) := words if {
	words := union({
		{destination.proof |
			destination.integrity == "trusted"
			destination.proof != "none"
		},
		{"pointed" |
			destination.integrity == "untrusted"
			destination.proof == "task"
		},
		{"own_id" | is_own_id(destination)},
		{"own_id_if_asked" |
			is_own_id(destination)
			input.flow.asked_for == true
		},
		{"seen_if_asked" |
			is_object(destination.from)
			input.flow.asked_for == true
		},
		{"name_if_asked" |
			destination.form == "name"
			input.flow.asked_for == true
		},
	})
}

# What the tool's own server gives out as an identifier: an outsider writes beside it, not into it.
# What reaches somebody anywhere is none, whatever its field is called.
is_own_id(destination) if {
	destination.proof == "typed"
	destination.from.minted == true
	destination.from.server == input.target.server
	not destination.form in {"email", "url"}
}

# Example: a tool posts to one fixed place, which no argument names.
flow_ask contains {"code": "no_destination", "message": no_destination_message} if {
	is_tool_call
	destination_needed
	not names_destination
	not needs_no_destination
}

no_destination_message := concat("", ["the tool's effect is ", effect, ", and no argument says what it reaches"])

destination_needed if proof_needed

destination_needed if {
	not proof_never
	run_private
}

proof_never if row.proof == "never"

names_destination if count(input.flow.destinations) > 0

needs_no_destination if {
	input.flow.names_where == true
	row.empty == "allow"
}

needs_no_destination if {
	not input.flow.names_where
	row.unlabelled == "allow"
}

# Links. Whoever follows one goes where it leads, so it is a destination of what is sent.
# Example: a calendar entry from outside has all participants get "notes" under a short link.
flow_ask contains {"code": "unproven_link", "message": message} if {
	is_tool_call
	proof_needed
	not links_free
	some link in input.flow.links
	not link_meant(link)
	message := concat("", ["nothing shows that this link is meant: ", link.path])
}

links_free if row.links == "any"

link_meant(link) if {
	link.proof != "none"
	link.integrity == "trusted"
}

# Confidential data. Earlier results that are found again in what is sent, by how confidential they
# are. Finding is evidence against; not finding proves nothing, so secrets count when they were seen.
carried contains level if {
	some part in input.flow.payload
	some found in part.matches
	level := level_of(found)
}

# What cannot be traced to a source that we know is private.
default level_of(_) := "private"

level_of(found) := "secret" if found.confidentiality == "secret"

level_of(found) := "public" if found.confidentiality in {"public", "internal"}

# Example: a paragraph of a private file stands in a mail to an address from the contacts.
flow_ask contains {"code": "private_data_leaves", "message": message} if {
	sends_out
	"private" in carried
	some destination in input.flow.destinations
	not may_receive(destination, "private")
	message := concat("", ["private data would go to ", destination.path])
}

flow_ask contains {"code": "private_data_leaves", "message": "private data would go to no named place"} if {
	sends_out
	"private" in carried
	not names_destination
	not goes_nowhere
}

flow_deny contains {"code": "secret_leaves", "message": message} if {
	sends_out
	secrets_at_stake
	some destination in input.flow.destinations
	not may_receive(destination, "secret")
	message := concat("", ["this run has seen secrets, and data would go to ", destination.path])
}

flow_deny contains {"code": "secret_leaves", "message": "this run has seen secrets, and data would leave"} if {
	sends_out
	secrets_at_stake
	not names_destination
	not goes_nowhere
}

may_receive(destination, level) if {
	some word in proofs(destination)
	word in tables.confidential[level]
}

goes_nowhere if {
	input.flow.names_where == true
	row.empty == "allow"
}

# What a server asks the client's model to write, it gets, with whatever the model has read.
# Example: a server asks for a summary of all that other servers have said.
flow_deny contains {"code": "secret_leaves", "message": "this run has seen secrets, and a server asks for a text"} if {
	asks_for_text
	secrets_at_stake
}

flow_deny contains {"code": "context_leaves", "message": "a server asks for what other servers have said"} if {
	asks_for_text
	input.arguments.includeContext == "allServers"
	run_private
}

asks_for_text if {
	input.phase == "call"
	input.target.kind == "server_request"
	input.target.name == "sampling/createMessage"
}

# Example: a URI that nobody gave out; an answer to a form with a line of a private file in it.
sends_out if {
	is_other_call
	names_destination
}

sends_out if {
	is_other_call
	count(input.flow.payload) > 0
}

# What a tool's server asked the user for is told to it, whatever else the tool does.
sends_out if {
	is_tool_call
	some part in input.flow.payload
	is_told(part.path)
}

is_told(path) if startswith(path, "$.inputResponses")

is_told(path) if startswith(path, "$.requestState")

is_told(path) if startswith(path, "$._meta")

# A write, and a read of an address, reach others only through the destinations they name.
sends_out if {
	is_tool_call
	names_destination
	not sends_never
}

sends_out if {
	is_tool_call
	not sends_never
	not sends_where_named
}

sends_never if row.sends == "never"

sends_where_named if row.sends == "named"

secrets_at_stake if input.flow.label.confidentiality == "secret"

secrets_at_stake if "secret" in carried
