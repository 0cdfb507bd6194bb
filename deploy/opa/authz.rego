# Who may ask the OPA server what: the gateway, by its token, for decisions and for the names of the
# policies. Everything else, writing a policy included, is refused.
package system.authz

default allow := false

allow if {
	input.method == "GET"
	input.path == ["health"]
}

allow if {
	from_gateway
	input.method == "POST"
	some entrypoint in ["decision", "pin", "pin_approvals", "self_approval"]
	input.path == ["v1", "data", "douane", entrypoint]
}

# Without bundles the gateway names the policy in force by its text.
allow if {
	from_gateway
	input.method == "GET"
	input.path == ["v1", "policies"]
}

# The digest of the token, not the token: nothing that this server holds opens a door.
from_gateway if {
	expected := opa.runtime().env.DOUANE_TOKEN_SHA256
	regex.match(`^[0-9a-f]{64}$`, expected)
	crypto.sha256(input.identity) == expected
}
