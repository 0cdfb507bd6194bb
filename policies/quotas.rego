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
	name in {"*", quota.quota}
}

used_up(quota) := sprintf("the quota %s is used up until %s", [quota.quota, quota.until]) if quota.until != ""

used_up(quota) := sprintf("as many calls are under way as the quota %s allows", [quota.quota]) if quota.until == ""
