# Quotas. The configuration says how much may be used (`limits.quotas`), the gateway counts and holds
# calls to it. Here it says what becomes of a call that has no room: it is refused, or a person is
# asked, whose yes lets this one call pass.
package douane

deny contains {"code": "rate_limited", "message": message} if {
	some quota in input.usage.over
	not asks_for(quota)
	message := used_up(quota)
}

# A yes for more than one call does not raise a quota: each call beyond it is asked about.
deny contains {"code": "rate_limited", "message": "a quota is raised for one call at a time: allow the call once"} if {
	some quota in input.usage.over
	asks_for(quota)
	is_object(input.approval)
	object.get(input.approval, "span", "") != "once"
}

ask contains {"code": "quota_used_up", "message": message} if {
	some quota in input.usage.over
	asks_for(quota)
	message := used_up(quota)
}

asks_for(quota) if {
	some name in data.douane.quotas.ask
	name in {"*", object.get(quota, "quota", "*")}
}

# A member that is not told must not leave a quota without a message, and so without a no.
used_up(quota) := sprintf("as many calls are under way as the quota %s allows", [name_of(quota)]) if {
	quota.until == ""
} else := sprintf("the quota %s is used up until %s", [name_of(quota), object.get(quota, "until", "further notice")])

name_of(quota) := object.get(quota, "quota", "(no name)")
