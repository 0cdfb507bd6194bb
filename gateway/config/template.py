"""The configuration that `douane init` writes."""

TEMPLATE = """\
# Douane's configuration. Every key that is missing here has a safe default;
# `douane config schema` lists them all, `douane check` finds what is wrong.
version: 1

# Where clients reach the gateway: scheme, host and port. Other machines need https.
public_url: http://127.0.0.1:8080
listen: 127.0.0.1:8080
admin_listen: 127.0.0.1:8081

# The database and the keys. Relative paths start at this file's folder.
data_dir: ./var

# Who signs people in. `embedded`: they have a password here. The first one opens the
# link that `douane serve` prints; for everybody else, `douane users add NAME` makes one.
auth:
  mode: embedded
#  mode: federated
#  providers:
#    company:
#      issuer: https://login.example.com
#      client_id: douane
#      client_secret: "env:LOGIN_SECRET"
#      groups: {"Gateway Admins": [admins]}
#      everybody: [users]

policy:
  path: ./policies

# What is yours: destinations that data may go to.
tenant:
  self: []
  domains: []

# One entry a server. Its tools are pinned and wait for a person:
# `douane pins list`, `douane pins approve NAME --all`.
servers: {}
#  mail:
#    url: https://mail.example.com/mcp
#    credential: {kind: header, name: Authorization, value: "env:MAIL_AUTHORIZATION"}
#    # or, each person with an account of their own there: {kind: oauth}
#    tools:
#      send_email:
#        effect: egress
#        destination: [recipients, cc]
#        payload: [subject, body]
"""
