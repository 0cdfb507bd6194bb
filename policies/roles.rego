# Roles and access. Who may use the gateway at all (`roles` of the configuration), and which
# servers and tools are closed to whom (`access` in data.yaml).
package douane

deny contains {"code": "no_role", "message": "the principal has no role that may use this gateway"} if {
	not is_user
}

is_user if {
	some role in {"user", "admin"}
	some group in data.douane.config.roles[role].groups
	group in input.principal.groups
}

deny contains {"code": "server_reserved", "message": "this server is reserved for other groups"} if {
	reserved := data.douane.access.only[input.target.server]
	every group in reserved {
		not group in input.principal.groups
	}
}

deny contains {"code": "access_denied", "message": message} if {
	some entry in data.douane.access.deny
	meant(entry, "server", input.target.server)
	meant(entry, "tool", input.target.name)
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

meant(entry, member, name) if entry[member] in {"*", name}

concerns_principal(entry) if not is_array(object.get(entry, "groups", null))

concerns_principal(entry) if {
	some group in entry.groups
	group in input.principal.groups
}
