# Scopes. What the access token must carry. A list shows a tool whose call needs more than the
# token has, so that the client can learn which scopes to ask for.
package douane

deny contains {"code": "insufficient_scope", "message": message} if {
	not scopes_suffice
	message := concat("", ["the token lacks a scope: ", concat(" ", needed_scopes)])
}

default scopes_suffice := false

scopes_suffice if {
	input.phase == "list"
	input.target.kind == "tool"
	some scope in {"tools:list", "tools:call"}
	scope in input.principal.scopes
}

scopes_suffice if {
	input.target.kind == "completion"
	some scope in {"prompts", "resources"}
	scope in input.principal.scopes
}

scopes_suffice if {
	not in_tool_list
	input.target.kind != "completion"
	every scope in needed_scopes {
		scope in input.principal.scopes
	}
}

in_tool_list if {
	input.phase == "list"
	input.target.kind == "tool"
}

# Every scope that the operation needs. An unknown kind needs one that nobody can have.
default needed_scopes := ["unknown"]

needed_scopes := ["tools:list"] if in_tool_list

needed_scopes := ["tools:call", "code:run"] if {
	runs_code
	not in_tool_list
}

needed_scopes := ["tools:call"] if {
	input.target.kind == "tool"
	not in_tool_list
	not runs_code
	effect == "read"
}

needed_scopes := ["tools:call", "tools:write"] if {
	input.target.kind == "tool"
	not in_tool_list
	not runs_code
	effect != "read"
}

needed_scopes := ["prompts"] if input.target.kind in {"prompt", "completion"}

needed_scopes := ["resources"] if input.target.kind in {"resource", "template"}

needed_scopes := [] if input.target.kind == "server_request"
