# What the tests beside the rules begin with: a reader's call that is allowed.
package fixtures_test

config := {"roles": {"user": {"groups": ["users"]}, "admin": {"groups": ["admins"]}}}

label(integrity, confidentiality) := {"integrity": integrity, "confidentiality": confidentiality}

read := {
	"phase": "call",
	"method": "tools/call",
	"principal": {"sub": "emma", "groups": ["users"], "scopes": ["tools:call"]},
	"target": {
		"server": "mail",
		"kind": "tool",
		"name": "search",
		"effect": "read",
		"pin": {"status": "approved"},
	},
	"arguments": {},
	"flow": {
		"label": label("untrusted", "private"),
		"sources": [
			{"server": "mail", "tool": "search", "record": "r1", "label": label("untrusted", "private")},
			{"server": "wiki", "tool": "page", "record": "r2", "label": label("untrusted", "public")},
			{"server": "safe", "tool": "key", "record": "r3", "label": label("trusted", "secret")},
		],
		"destinations": [],
		"names_where": false,
		"payload": [],
		"links": [],
		"asked_for": null,
		"told": null,
		"left_open": false,
		"unheard": false,
		"lasting": false,
		"at_home": true,
		"violations": [],
	},
	"result": null,
}

# The same with every scope, and `changes` made: a list of [path, value].
with_changes(changes) := json.patch(read, array.concat(
	[{
		"op": "replace",
		"path": "/principal/scopes",
		"value": ["tools:call", "tools:write", "prompts", "resources"],
	}],
	[{"op": "add", "path": change[0], "value": change[1]} | some change in changes],
))

listed(changes) := json.patch(
	with_changes(array.concat(changes, [["/phase", "list"]])),
	[{"op": "remove", "path": "/arguments"}, {"op": "remove", "path": "/flow"}],
)

# A destination by who chose it: the words of the tables.
to(word) := [object.union(
	{
		"path": "$.to",
		"value": "x@y.example",
		"form": "email",
		"proof": "none",
		"integrity": "untrusted",
		"from": null,
		"said": "",
		"by": word,
	},
	object.get(oddities, word, {}),
)]

trusted := {"integrity": "trusted"}

oddities := {
	"tenant": trusted,
	"task": trusted,
	"typed": trusted,
	"trusted_result": trusted,
	"picked": object.union(trusted, {"said": "outsider"}),
	"outsider": {"said": "outsider"},
	"name": {"form": "name", "value": "plan.txt"},
	"own_id": {"proof": "typed", "form": "name", "value": "file-7", "from": {"server": "mail", "minted": true}},
}

# Words of an outsider's in what is carried.
told_by_outsider := [{"path": "$.body", "matches": [], "said": "outsider"}]

carrying(confidentiality) := [{"path": "$.body", "said": "", "matches": [{
	"record": "r1",
	"kind": "exact",
	"bytes": 9,
	"confidentiality": confidentiality,
}]}]

# What was decided, in short: the verdict and the codes of its reasons.
outcome(decision) := [decision.verdict, [reason.code | some reason in decision.reasons]]
