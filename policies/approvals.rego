# Approvals. What a person has answered to a call that policy asks about.
package douane

# A yes that is on file for exactly this call stands against an `ask`, and never against a `deny`.
approved if is_object(input.approval)

# Whether the person whose call it is may say yes to it themselves. The shipped answer is no: what
# led their agent may have led them. To let people approve their own writes, say so here:
#   self_approval if input.target.effect == "write"
default self_approval := false
