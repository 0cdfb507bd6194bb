{{- /* What this chart installs nothing of, each with a sentence that says what to write instead. */ -}}
{{- define "douane.refusals" -}}
{{- include "douane.refusals.config" . -}}
{{- include "douane.refusals.storage" . -}}
{{- if .Values.network.enabled -}}
{{- include "douane.refusals.network" . -}}
{{- end -}}
{{- $needed := add .Values.drain.preStopSeconds 45 | int -}}
{{- if lt (int .Values.drain.gracePeriodSeconds) $needed -}}
{{- fail (printf "drain.gracePeriodSeconds: write %d or more: preStopSeconds, and 45 seconds in which calls under way end and the log is signed" $needed) -}}
{{- end -}}
{{- end -}}

{{- define "douane.refusals.config" -}}
{{- if not .Values.publicUrl -}}
{{- fail "publicUrl: write what clients type, such as https://mcp.example.com" -}}
{{- end -}}
{{- range $key := list "version" "public_url" "listen" "admin_listen" "data_dir" -}}
{{- if hasKey $.Values.config $key -}}
{{- fail (printf "config.%s: leave it out, the chart writes it" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "kind" "url" -}}
{{- if hasKey (get $.Values.config "storage" | default dict) $key -}}
{{- fail (printf "config.storage.%s: leave it out, and write storage.kind and secretFiles.database" $key) -}}
{{- end -}}
{{- end -}}
{{- if hasKey (get .Values.config "policy" | default dict) "path" -}}
{{- fail "config.policy.path: leave it out, and name a ConfigMap in policy.configMap" -}}
{{- end -}}
{{- if hasKey (get .Values.config "auth" | default dict) "key_encryption_key" -}}
{{- fail "config.auth.key_encryption_key: leave it out, and name a Secret in secretFiles.kek" -}}
{{- end -}}
{{- range $name, $server := get .Values.config "servers" | default dict -}}
{{- if hasKey $server "command" -}}
{{- fail (printf "config.servers.%s.command: each gateway would start a process of its own, and a restricted pod can jail none; start the server once, elsewhere, and give its url" $name) -}}
{{- end -}}
{{- end -}}
{{- if eq (get (get .Values.config "code" | default dict) "jail" | default "auto") "required" -}}
{{- fail "config.code.jail: a restricted pod can make no jail, so no program would run; leave it out" -}}
{{- end -}}
{{- end -}}

{{- define "douane.refusals.storage" -}}
{{- if not (get .Values.secretFiles "kek") -}}
{{- fail "secretFiles.kek: name the Secret and its key that hold the key encryption key" -}}
{{- end -}}
{{- if eq .Values.storage.kind "postgres" -}}
{{- if not (get .Values.secretFiles "database") -}}
{{- fail "secretFiles.database: name the Secret and its key that hold the address of PostgreSQL" -}}
{{- end -}}
{{- else -}}
{{- if or (ne (int .Values.replicas) 1) .Values.autoscaling.enabled -}}
{{- fail "storage.kind: sqlite is a file that one gateway has alone; write replicas: 1 without autoscaling, or storage.kind: postgres, which several share" -}}
{{- end -}}
{{- if not .Values.storage.claim -}}
{{- fail "storage.claim: name a PersistentVolumeClaim; the record would end with its pod" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "douane.refusals.network" -}}
{{- if not .Values.network.from -}}
{{- fail "network.from: name who may call the gateway, such as the namespace of the ingress controller" -}}
{{- end -}}
{{- if and (eq .Values.storage.kind "postgres") (not .Values.network.database.to) -}}
{{- fail "network.database.to: name where PostgreSQL is" -}}
{{- end -}}
{{- range $name, $_ := get .Values.config "servers" | default dict -}}
{{- if not (hasKey $.Values.network.servers $name) -}}
{{- fail (printf "network.servers.%s: name where it is; a server that is not listed cannot be reached" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
