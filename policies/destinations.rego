# Destinations and labels. Where data may go. A destination needs positive proof that it is
# good: known to the tenant, named by the task, or an identifier out of a result. That it was
# not seen in bad company proves nothing.
package douane

ask contains {"code": "unproven_destination", "message": message} if {
	is_tool_call
	proof_needed
	some destination in input.flow.destinations
	not proven(destination)
	message := concat("", ["nothing shows that this destination is meant: ", destination.path])
}

# Here and below each `not` is of a rule of its own: an expression on a member that is missing is
# undefined, and so would be its `not`, where what is missing must count as a no.
proven(destination) if destination.proof in data.douane.proofs

proof_needed if not proof_waived

proof_waived if rule_of_effect.proof == "never"

proof_waived if {
	rule_of_effect.proof == "untrusted"
	run_trusted
}

ask contains {"code": "no_destination", "message": "the tool sends data and does not say where to"} if {
	is_tool_call
	not needs_no_destination
	not names_destination
	guarded
}

needs_no_destination if rule_of_effect.no_destination == "allow"

names_destination if count(input.flow.destinations) > 0

guarded if not run_trusted

guarded if run_private

guarded if rule_of_effect.proof == "always"

# Earlier results that are found again in what is being sent, by how confidential they are.
carried contains level if {
	some part in input.flow.payload
	some found in part.matches
	level := level_of(found.record)
}

# What cannot be traced to a source that we know is private.
level_of(record) := level if {
	levels := {source.label.confidentiality |
		some source in input.flow.sources
		source.record == record
	}
	level := most_confidential(levels)
}

default most_confidential(_) := "private"

most_confidential(levels) := "secret" if "secret" in levels

most_confidential(levels) := "public" if {
	count(levels) > 0
	levels - {"public", "internal"} == set()
}

ask contains {"code": "private_data_leaves", "message": message} if {
	sends_out
	"private" in carried
	some destination in input.flow.destinations
	not may_receive(destination, "private")
	message := concat("", ["private data would go to ", destination.path])
}

ask contains {"code": "private_data_leaves", "message": "private data would go to no named place"} if {
	sends_out
	"private" in carried
	not names_destination
}

deny contains {"code": "secret_leaves", "message": message} if {
	sends_out
	secrets_at_stake
	some destination in input.flow.destinations
	not may_receive(destination, "secret")
	message := concat("", ["this run has seen secrets, and data would go to ", destination.path])
}

deny contains {"code": "secret_leaves", "message": "this run has seen secrets, and data would leave"} if {
	sends_out
	secrets_at_stake
	not names_destination
}

may_receive(destination, level) if destination.proof in data.douane.confidential[level]

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

sends_never if rule_of_effect.sends == "never"

sends_where_named if rule_of_effect.sends == "named"

secrets_at_stake if input.flow.label.confidentiality == "secret"

secrets_at_stake if "secret" in carried
