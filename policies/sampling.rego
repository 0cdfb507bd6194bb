# Sampling. A server asks the client's model to write something: it gets that, with whatever the model
# has read. All of it is flow: a profile that only observes reports it.
package douane

# Example: a server asks for a summary of all that other servers have said.
flow_deny contains {"code": "secret_leaves", "message": "this run has seen secrets, and a server asks for a text"} if {
	asks_for_text
	count(secrets_at_stake) > 0
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
