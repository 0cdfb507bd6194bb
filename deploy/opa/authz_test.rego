package system.authz_test

import data.system.authz

runtime := {"env": {"DOUANE_TOKEN_SHA256": crypto.sha256("secret")}}

asked(method, path, token) := {"method": method, "path": path, "identity": token}

decision := ["v1", "data", "douane", "decision"]

test_the_gateway_may_ask_for_a_decision if {
	authz.allow with input as asked("POST", decision, "secret") with opa.runtime as runtime
}

test_the_gateway_may_ask_what_is_said_of_people if {
	every entrypoint in ["pin", "pin_approvals", "self_approval"] {
		authz.allow with input as asked("POST", ["v1", "data", "douane", entrypoint], "secret") with opa.runtime as runtime
	}
}

test_the_gateway_may_read_the_policies if {
	authz.allow with input as asked("GET", ["v1", "policies"], "secret") with opa.runtime as runtime
}

test_another_token_may_not_ask if {
	not authz.allow with input as asked("POST", decision, "guess") with opa.runtime as runtime
}

test_no_token_may_not_ask if {
	not authz.allow with input as {"method": "POST", "path": decision} with opa.runtime as runtime
}

test_nobody_may_ask_where_no_digest_is_set if {
	not authz.allow with input as asked("POST", decision, "secret") with opa.runtime as {"env": {}}
}

test_an_empty_digest_opens_nothing if {
	not authz.allow with input as asked("POST", decision, "") with opa.runtime as {"env": {"DOUANE_TOKEN_SHA256": ""}}
}

test_the_gateway_may_not_write_a_policy if {
	not authz.allow with input as asked("PUT", ["v1", "policies", "x"], "secret") with opa.runtime as runtime
}

test_the_gateway_may_not_read_data if {
	not authz.allow with input as asked("GET", ["v1", "data"], "secret") with opa.runtime as runtime
}

test_health_needs_no_token if {
	authz.allow with input as {"method": "GET", "path": ["health"]}
}
