# Effects. What a call may do, by the effect of its tool: the table `effects` in data.yaml.
# Lists have no flow, so nothing here speaks in that phase.
package douane

# An effect that is unknown or missing is the worst one that nobody declared.
default effect := "destroy"

effect := input.target.effect if is_object(data.douane.effects[input.target.effect])

default rule_of_effect := {}

rule_of_effect := data.douane.effects[effect] if is_object(data.douane.effects[effect])

is_tool_call if {
	input.phase == "call"
	input.target.kind == "tool"
}

# Only a label that says so is trusted: a run that nobody labelled is not.
default run_trusted := false

run_trusted if input.flow.label.integrity == "trusted"

default run_private := true

run_private := false if input.flow.label.confidentiality in {"public", "internal"}

deny contains {"code": "no_flow", "message": "nothing is known of the data of this call"} if {
	is_tool_call
	not input.flow
}

# A word in the table that is not one of its words reads as the strictest: "allow" alone lets pass.
untrusted_run := object.get(rule_of_effect, "untrusted_run", "deny")

ask contains {"code": "untrusted_run", "message": untrusted_message} if {
	is_tool_call
	not run_trusted
	untrusted_run == "ask"
}

deny contains {"code": "untrusted_run", "message": untrusted_message} if {
	is_tool_call
	not run_trusted
	not untrusted_run in {"allow", "ask"}
}

untrusted_message := concat("", ["the run has seen untrusted data, and the tool's effect is ", effect])
