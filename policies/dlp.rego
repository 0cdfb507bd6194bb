# Sensitive data. The gateway finds it in what is sent and what is answered; here it says what may go
# where, and how answers show it: the tables under `dlp` in data.yaml.
package douane

# What holds of a group without a row, so that a table that is not there or is no table opens nothing.
unwritten := {
	"arguments": {
		"credential": {"to": ["home", "task"], "otherwise": "deny"},
		"password": {"to": ["home", "task", "inside"], "otherwise": "ask"},
		"card": {"to": ["home", "task", "place", "inside"], "otherwise": "ask"},
		"iban": {"to": ["home", "task", "place", "inside"], "otherwise": "ask"},
	},
	"results": {"credential": "mask", "password": "mask"},
}

# The row of a class, else that of its group.
row_for(table, found) := row if {
	row := data.douane.dlp[table][found.class]
} else := row if {
	row := data.douane.dlp[table][found.group]
} else := unwritten[table][found.group]

deny contains {"code": "sensitive_data", "message": message} if {
	some found in held
	not asks_about(found)
	message := carries(found)
}

ask contains {"code": "sensitive_data", "message": message} if {
	some found in held
	asks_about(found)
	message := carries(found)
}

# Whatever else a row says, or fails to say, is a no.
asks_about(found) if rule_for(found).otherwise == "ask"

# What a call carries and may not, where it goes.
held contains found if {
	input.phase == "call"
	some found in input.dlp.arguments
	has_rule(found)
	not may_go(found)
}

has_rule(found) if {
	row := rule_for(found)
	row == row
}

rule_for(found) := row_for("arguments", found)

may_go(found) if "anywhere" in rule_for(found).to

# By way of its server it may reach somebody else, whose it is not.
may_go(found) if {
	"home" in rule_for(found).to
	found.given == "server"
	input.flow.at_home == true
}

may_go(found) if {
	"task" in rule_for(found).to
	found.given == "task"
}

# It says where the call goes, as the account of a payment does, and is judged as that.
may_go(found) if {
	"place" in rule_for(found).to
	found.place == true
}

may_go(found) if {
	"inside" in rule_for(found).to
	stays_inside
}

# Every place is the tenant's own; what names none stays inside only if it reads or writes.
stays_inside if {
	count(input.flow.destinations) > 0
	every destination in input.flow.destinations { destination.by == "tenant" }
}

stays_inside if {
	count(input.flow.destinations) == 0
	input.target.effect in {"read", "write"}
}

carries(found) := sprintf("the call carries something of class %s that may not go there", [class_of(found)])

# What is not told must not leave a finding without a message, and so without a no.
class_of(found) := object.get(found, "class", "(unknown)")

# What answers show of it.
shown_as contains [class_of(found), how] if {
	input.phase == "result"
	some found in input.dlp.result
	how := row_for("results", found)
	how != "show"
}

duty contains {"duty": how, "classes": classes} if {
	some how in masks
	classes := sort([pair[0] | some pair in shown_as; pair[1] == how])
	count(classes) > 0
}

masks := {"mask", "tokenize", "drop"}

# `withhold`, or a word that is none.
deny contains {"code": "sensitive_data", "message": message} if {
	some [found, how] in shown_as
	not how in masks
	message := sprintf("the answer has something of class %s", [found])
}
