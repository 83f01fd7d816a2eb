{{/* The name of everything: what tools made for the agent-sandbox controller look for. */}}
{{- define "kiln.name" -}}
{{ .Values.nameOverride | default "agent-sandbox-controller" }}
{{- end }}

{{- define "kiln.namespace" -}}
{{ .Values.namespace.name | default .Release.Namespace }}
{{- end }}

{{- define "kiln.account" -}}
{{ .Values.serviceAccount.name | default (include "kiln.name" .) }}
{{- end }}

{{/* The selector is the one label that the agent-sandbox controller's Deployment selects by: it cannot be changed. */}}
{{- define "kiln.selector" -}}
app: {{ include "kiln.name" . }}
{{- end }}

{{- define "kiln.common" -}}
app.kubernetes.io/name: kiln
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kiln.labels" -}}
{{ include "kiln.selector" . }}
{{ include "kiln.common" . }}
{{- end }}

{{- define "kiln.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "kiln.leaseNamespace" -}}
{{ .Values.controller.leaderElectionNamespace | default (include "kiln.namespace" .) }}
{{- end }}

{{/* The port of an address such as :8080; "0" is none. */}}
{{- define "kiln.metricsPort" -}}
{{ splitList ":" .Values.controller.metricsBindAddress | last }}
{{- end }}

{{- define "kiln.healthPort" -}}
{{ splitList ":" .Values.controller.healthProbeBindAddress | last }}
{{- end }}

{{/* The rules of files/rights.yaml for a place, without those that nobody needs here. */}}
{{- define "kiln.rules" -}}
{{- $root := .root -}}
{{- $rules := list -}}
{{- range $root.Files.Get "files/rights.yaml" | fromYamlArray -}}
{{- if and (has .where $.where) (or $root.Values.controller.extensions (not .extensions)) -}}
{{- $rules = append $rules .rule -}}
{{- end -}}
{{- end -}}
{{ toYaml $rules }}
{{- end }}

{{- define "kiln.subjects" -}}
- kind: ServiceAccount
  name: {{ include "kiln.account" . }}
  namespace: {{ include "kiln.namespace" . }}
{{- end }}

{{/* What the pods of hooks and tests share with those of the controller. */}}
{{- define "kiln.placed" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kiln.flowSubjects" -}}
- kind: ServiceAccount
  serviceAccount:
    name: {{ include "kiln.account" . }}
    namespace: {{ include "kiln.namespace" . }}
{{- end }}
