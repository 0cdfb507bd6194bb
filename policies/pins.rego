# Pins. Only a definition that a person approved may be called, and what becomes of one that
# changed.
package douane

deny contains {"code": "pin_not_approved", "message": "nobody has approved this definition"} if {
	input.phase == "call"
	not pin_approved
}

pin_approved if input.target.pin.status == "approved"

# T0: the change cannot be seen by a model and changes no contract.
default pin := "hold"

pin := "approve" if input.change.tier == "T0"

# How many people must approve a change. To ask for two where policy reads what changed, say here:
#   pin_approvals := 2 if input.change.tier == "T3"
default pin_approvals := 1
