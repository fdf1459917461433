{{/* The manifests of deploy/ say what the objects are for, and why their rules are as
they are. A test checks that the objects here equal those there. They also have the same
names, so a namespace can have only one release: Helm refuses a second one. */}}

{{/* The namespace of the sandboxes. */}}
{{- define "podagent.namespace" -}}
{{- .Values.namespace.name | default .Release.Namespace -}}
{{- end -}}

{{/* Labels of every object. app.kubernetes.io/managed-by must not be podagent: with that
value, the launcher and the policies recognize sandboxes. */}}
{{- define "podagent.labels" -}}
app.kubernetes.io/name: podagent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* Labels that select the MCP server's pod. */}}
{{- define "podagent.mcpSelector" -}}
app.kubernetes.io/name: podagent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: mcp
{{- end -}}

{{/* Labels that select the gateway's pods. */}}
{{- define "podagent.gatewaySelector" -}}
app.kubernetes.io/name: podagent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{/* settingFlags is the list of the flags that settings name. A list repeats its flag. */}}
{{- define "podagent.settingFlags" -}}
{{- $flags := list -}}
{{- range $name, $value := . -}}
{{- range (kindIs "slice" $value | ternary $value (list $value)) -}}
{{- $flags = append $flags (printf "--%s=%s" $name (kindIs "string" . | ternary . (toJson .))) -}}
{{- end -}}
{{- end -}}
{{- toJson $flags -}}
{{- end -}}

{{/* metadata: takes the root and the name of an object about the sandboxes. */}}
{{- define "podagent.metadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ index . 1 }}
  namespace: {{ include "podagent.namespace" $root }}
  labels:
    {{- include "podagent.labels" $root | nindent 4 }}
{{- end -}}

{{/* ownMetadata is metadata for an object about orchestrators. */}}
{{- define "podagent.ownMetadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "podagent.labels" $root | nindent 4 }}
{{- end -}}

{{/* binding gives a Role to accounts. It takes the root, the name of the Role, the name of
the template for the metadata, and the accounts: without any, that of orchestrators. */}}
{{- define "podagent.binding" -}}
{{- $root := index . 0 -}}
{{- $accounts := slice . 3 | default (list $root.Values.serviceAccount.name) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
{{ include (index . 2) . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ index . 1 }}
subjects:
  {{- range $accounts }}
  - kind: ServiceAccount
    name: {{ . }}
    namespace: {{ $root.Release.Namespace }}
  {{- end }}
{{- end -}}

{{/* reaperConnection is how the reaper connects to agents; it may be empty. */}}
{{- define "podagent.reaperConnection" -}}
{{- .Values.reaper.connection | default (.Values.mcp.settings).connection | default "" -}}
{{- end -}}

{{/* accounts is the list of those that make sandboxes: the orchestrators', and the gateway's. */}}
{{- define "podagent.accounts" -}}
{{- $accounts := list .Values.serviceAccount.name -}}
{{- if (.Values.gateway).enabled -}}
{{- $accounts = append $accounts "podagent-gateway" -}}
{{- end -}}
{{- toJson $accounts -}}
{{- end -}}

{{/* sandboxes is the podSelector of policies for sandboxes. */}}
{{- define "podagent.sandboxes" -}}
podSelector:
  matchExpressions:
    - {key: app.kubernetes.io/managed-by, operator: In, values: [podagent, podagent-pool]}
{{- end -}}
