{{- /* douane.yaml: what the values say, and what follows from the chart. */ -}}
{{- define "douane.config" -}}
{{- $given := deepCopy .Values.config -}}
{{- $storage := merge (dict "kind" .Values.storage.kind) (get $given "storage" | default dict) -}}
{{- if eq .Values.storage.kind "postgres" -}}
{{- $_ := set $storage "url" "file:/run/douane/database" -}}
{{- end -}}
{{- $auth := merge (dict "key_encryption_key" "file:/run/douane/kek") (get $given "auth" | default dict) -}}
{{- $path := ternary "/etc/douane-policy" "/usr/share/douane/policies" (ne .Values.policy.configMap "") -}}
{{- $policy := merge (dict "path" $path) (get $given "policy" | default dict) -}}
{{- $own := dict "version" 1 "public_url" .Values.publicUrl "listen" "0.0.0.0:8080" "admin_listen" "0.0.0.0:8081" "data_dir" "/data/gateway" "storage" $storage "auth" $auth "policy" $policy -}}
{{- toYaml (merge $own $given) -}}
{{- end -}}
