# The decision. Every question ends here. Rules elsewhere say why not (`deny`), what a person
# should look at first (`ask`), and what must be done along with a yes (`duty`). Where nothing
# permits, it is a no.
package douane

default decision := {
	"verdict": "deny",
	"reasons": [{"code": "no_rule", "message": "no rule allows this"}],
	"obligations": [],
}

decision := {"verdict": "deny", "reasons": reasons, "obligations": step_up} if {
	count(deny) > 0
	not asked_first
	reasons := sort(said_against)
} else := {"verdict": "ask", "reasons": reasons, "obligations": duties} if {
	permitted
	count(ask) > 0
	not approved
	reasons := sort(ask)
} else := {"verdict": "allow", "reasons": reasons, "obligations": duties} if {
	permitted
	reasons := sort(observed)
}

duties := sort(duty)

# A scope that lacks besides is not told of: whoever went and got it would get no further.
said_against := others if {
	others := {reason | some reason in deny; reason.code != "insufficient_scope"}
	count(others) > 0
} else := deny

# What can be decided at all. Each of these still needs that no rule denies it.
default permitted := false

permitted if {
	input.phase in {"list", "call", "result"}
	input.target.kind in {"tool", "prompt", "resource", "template", "completion"}
}

permitted if {
	input.phase in {"list", "call", "result"}
	input.target.kind == "server_request"
	input.target.name in data.douane.server_requests
}

# What a server says while nobody has called it: news, progress, its log.
permitted if {
	input.phase == "result"
	input.target.kind == "server_request"
	startswith(input.target.name, "notifications/")
}

# More scopes help only where nothing else stands in the way: to get them, a person answers for the
# client, and an answer to that is none to what a person was to look at.
default step_up := []

step_up := [{"duty": "require_step_up", "scopes": needed_scopes}] if lacks_scope_only

default asked_first := false

asked_first if {
	lacks_scope_only
	permitted
	count(ask) > 0
	not approved
}

lacks_scope_only if {
	input.phase == "call"
	{reason.code | some reason in deny} == {"insufficient_scope"}
}
