{{- define "douane.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "douane.selector" -}}
app.kubernetes.io/name: douane
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "douane.labels" -}}
{{ include "douane.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "douane.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- /* Of each container, whatever it does. */ -}}
{{- define "douane.hardened" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* One listed way out: {to, port}. */ -}}
{{- define "douane.egress" -}}
- to:
    {{- toYaml .to | nindent 4 }}
  ports:
    - {port: {{ .port }}, protocol: TCP}
{{- end -}}
