# Sensitive data. The gateway finds it in what is sent and what is answered; here it says what may go
# where, and how answers show it: the tables under `dlp` in data.yaml.
package douane

deny contains {"code": "sensitive_data", "message": message} if {
	some found in held
	not rule_for(found).otherwise == "ask"
	message := carries(found)
}

ask contains {"code": "sensitive_data", "message": message} if {
	some found in held
	rule_for(found).otherwise == "ask"
	message := carries(found)
}

# What a call carries and may not, where it goes.
held contains found if {
	input.phase == "call"
	some found in input.dlp.arguments
	rule_for(found) != null
	not may_go(found)
}

# A class has its own row, or that of its group.
rule_for(found) := object.get(data.douane.dlp.arguments, found.class, object.get(data.douane.dlp.arguments, found.group, null))

may_go(found) if "anywhere" in rule_for(found).to

may_go(found) if {
	"home" in rule_for(found).to
	found.given == "server"
}

may_go(found) if {
	"task" in rule_for(found).to
	found.given == "task"
}

# It says where the call goes, as the account of a payment does, and is judged as that.
may_go(found) if {
	"place" in rule_for(found).to
	some destination in input.flow.destinations
	destination.path == found.path
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

carries(found) := sprintf("the call carries something of class %s that may not go there", [found.class])

# What answers show of it.
shown_as contains [found.class, how] if {
	input.phase == "result"
	some found in input.dlp.result
	how := object.get(data.douane.dlp.results, found.class, object.get(data.douane.dlp.results, found.group, "show"))
}

duty contains {"duty": how, "classes": classes} if {
	some how in ["mask", "tokenize", "drop"]
	classes := sort([pair[0] | some pair in shown_as; pair[1] == how])
	count(classes) > 0
}

deny contains {"code": "sensitive_data", "message": message} if {
	some [found, how] in shown_as
	not how in {"show", "mask", "tokenize", "drop"}
	message := sprintf("the answer has something of class %s", [found])
}
