# Programs. The gateway's own tool `run_code` runs one. To let somebody run a program allows none of its
# calls: each of them comes here by itself, with `input.origin.kind` "sandbox". What the program's
# text says goes nowhere, so nothing in flow.rego is about it.
#
# To close code mode to somebody, deny it like any tool:
#   deny contains {"code": "no_code", "message": "only analysts run programs"} if {
#     runs_code
#     not is_analyst
#   }
#   is_analyst if "analysts" in input.principal.groups
package douane

default runs_code := false

runs_code if {
	input.target.kind == "tool"
	input.target.server == ""
	input.target.name == "run_code"
}

# A program may ask for calls beforehand, by tool, number and arguments. A person says, not a rule.
ask contains {"code": "grants_in_advance", "message": "the program asks for calls to be allowed beforehand"} if {
	runs_code
	input.phase == "call"
	some grant in input.arguments.grants
	grant.preapproved == true
}
