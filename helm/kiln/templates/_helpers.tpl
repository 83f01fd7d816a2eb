{{/*
The name of everything. It is none that the agent-sandbox controller's manifests or chart have, so that both can be
installed at a time, and what removes one of them leaves the other alone.
*/}}
{{- define "kiln.name" -}}
{{ .Values.nameOverride | default "kiln" }}
{{- end }}

{{/* What the agent-sandbox controller's chart has by default. In its values they stand for "by default". */}}
{{- define "kiln.theirName" -}}
agent-sandbox-controller
{{- end }}
{{- define "kiln.theirImage" -}}
registry.k8s.io/agent-sandbox/agent-sandbox-controller
{{- end }}

{{/* The name of the Service. */}}
{{- define "kiln.service" -}}
{{- $name := include "kiln.name" . -}}
{{- if eq (.Values.service.name | default "") (include "kiln.theirName" .) }}{{ $name }}{{ else }}{{ .Values.service.name | default $name }}{{ end }}
{{- end }}

{{/* The ConfigMap of the allowed label domains: the release's own, or one that users made. */}}
{{- define "kiln.config" -}}
{{ if .Values.allowedLabelDomains }}{{ include "kiln.name" . }}-config{{ else }}agent-sandbox-config{{ end }}
{{- end }}

{{/* The given values that have no effect, one a line, each with the reason. */}}
{{- define "kiln.ignored" -}}
{{- if hasKey .Values "webhookServiceName" }}
  webhookServiceName: there is no webhook
{{- end }}
{{- if not (kindIs "invalid" .Values.controller.sandboxWarmPoolUnschedulableRecheckInterval) }}
  controller.sandboxWarmPoolUnschedulableRecheckInterval: an event tells when a pod can be scheduled
{{- end }}
{{- if and .Values.namespace.create .Values.crds.install }}
  namespace.create: the definitions are installed before the release, in the namespace; helm's --create-namespace makes it
{{- end }}
{{- if eq .Values.image.repository (include "kiln.theirImage" .) }}
  image.repository, image.tag, image.digest: they name the agent-sandbox controller's image; Kiln's own is used
{{- end }}
{{- if and (eq (.Values.service.name | default "") (include "kiln.theirName" .)) (ne (include "kiln.service" .) .Values.service.name) }}
  service.name: {{ .Values.service.name }} is the agent-sandbox controller's; nameOverride={{ .Values.service.name }} gives Kiln that name
{{- end }}
{{- end }}

{{- define "kiln.namespace" -}}
{{ .Values.namespace.name | default .Release.Namespace }}
{{- end }}

{{- define "kiln.account" -}}
{{ .Values.serviceAccount.name | default (include "kiln.name" .) }}
{{- end }}

{{/* A Deployment's selector cannot be changed. */}}
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
{{- if eq .Values.image.repository (include "kiln.theirImage" .) -}}
ghcr.io/kiln-sandbox/kiln:{{ .Chart.AppVersion }}
{{- else -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
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
