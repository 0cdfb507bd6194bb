# Roles and access. Who may use the gateway at all (`roles` of the configuration), and which
# servers and tools are closed to whom (`access` in data.yaml).
package douane

deny contains {"code": "no_role", "message": "the principal has no role that may use this gateway"} if {
	not is_user
}

is_user if {
	some role in {"user", "admin"}
	some group in data.douane.config.roles[role].groups
	is_in(group)
}

deny contains {"code": "server_reserved", "message": "this server is reserved for other groups"} if {
	some server, reserved in data.douane.access.only
	server == object.get(input.target, "server", server)
	every group in reserved { not is_in(group) }
}

# A rule of its own: OPA takes what is in `not group in input.principal.groups` out of the negation, so
# that it says nothing where the groups are not told.
is_in(group) if group in input.principal.groups

deny contains {"code": "access_denied", "message": message} if {
	some entry in data.douane.access.deny
	meant(entry, "server", object.get(input.target, "server", null))
	meant(entry, "tool", object.get(input.target, "name", null))
	concerns_principal(entry)
	message := object.get(entry, "reason", "access to this is denied")
}

# A list that cannot be read must not read as an empty one.
deny contains {"code": "access_unreadable", "message": "the access rules cannot be read"} if {
	not access_readable
}

access_readable if {
	is_array(data.douane.access.deny)
	every entry in data.douane.access.deny {
		is_object(entry)
	}
	is_object(data.douane.access.only)
	every groups in data.douane.access.only {
		is_array(groups)
	}
}

# What an entry leaves out or misspells, it means all of: a slip closes more, never less.
meant(entry, member, _) if not is_string(object.get(entry, member, null))

# So does an entry where it is not told what is asked for.
meant(_, _, null)

meant(entry, member, name) if entry[member] in {"*", name}

concerns_principal(entry) if not is_array(object.get(entry, "groups", null))

concerns_principal(entry) if {
	some group in entry.groups
	is_in(group)
}
