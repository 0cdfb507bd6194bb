package quotas_test

import data.douane
import data.fixtures_test as fix

used(quota, until) := {
	"quota": quota, "count": "calls", "per": "day",
	"most": 200, "used": 200, "left": 0, "until": until,
}

mails := used("mails", "2026-11-28T00:00:00Z")

decision(changes, quotas) := answer if {
	answer := douane.decision with input as fix.with_changes(changes)
		with data.douane.config as fix.config
		with data.douane.quotas as quotas
}

over(quotas) := ["/usage", {"over": quotas, "counts": quotas}]

yes(span) := ["/approval", {"id": "a1", "by": "alice", "span": span, "note": ""}]

test_what_no_quota_is_about_passes if {
	decision([over([])], {"ask": []}).verdict == "allow"
	decision([], {"ask": []}).verdict == "allow"
}

test_a_quota_that_is_used_up_is_refused if {
	decision([over([mails])], {"ask": []}) == {
		"verdict": "deny",
		"reasons": [{
			"code": "rate_limited",
			"message": "the quota mails is used up until 2026-11-28T00:00:00Z",
		}],
		"obligations": [],
	}
}

test_a_person_is_asked_where_the_table_says_so if {
	every asked in [["mails"], ["*"]] {
		answer := decision([over([mails])], {"ask": asked})
		answer.verdict == "ask"
		answer.reasons[0].code == "quota_used_up"
	}
	decision([over([mails])], {"ask": ["other"]}).verdict == "deny"
}

test_a_yes_lets_one_call_pass if {
	decision([over([mails]), yes("once")], {"ask": ["mails"]}).verdict == "allow"
}

test_a_yes_for_more_raises_nothing if {
	every span in ["run", "grant", "standing"] {
		decision([over([mails]), yes(span)], {"ask": ["mails"]}).verdict == "deny"
	}
}

test_a_yes_helps_no_quota_that_is_refused if {
	decision([over([mails]), yes("once")], {"ask": []}).verdict == "deny"
}

test_what_is_under_way_has_no_time if {
	answer := decision([over([used("at-once", "")])], {"ask": []})
	answer.reasons[0].message == "as many calls are under way as the quota at-once allows"
}

test_a_quota_that_does_not_say_all_is_refused if {
	answer := decision([over([{"quota": "mails"}])], {"ask": []})
	answer.verdict == "deny"
	answer.reasons[0].message == "the quota mails is used up until further notice"
	decision([over([{}])], {"ask": []}).verdict == "deny"
	decision([over([{}])], {"ask": ["mails"]}).verdict == "deny"
	decision([over([{}])], {"ask": ["*"]}).verdict == "ask"
}
