{{/* What the objects are for, and why their rules are so, is said in the manifests
of deploy/: a test holds these to them. They have the names that they have there, so
that a namespace has one release: Helm refuses a second one. */}}

{{/* The namespace of the sandboxes. */}}
{{- define "podagent.namespace" -}}
{{- .Values.namespace.name | default .Release.Namespace -}}
{{- end -}}

{{/* Labels of every object. app.kubernetes.io/managed-by is never podagent: that
is how the launcher and the policies know sandboxes. */}}
{{- define "podagent.labels" -}}
app.kubernetes.io/name: podagent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* Labels by which the MCP server's pod is found. */}}
{{- define "podagent.mcpSelector" -}}
app.kubernetes.io/name: podagent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: mcp
{{- end -}}

{{/* metadata takes the root and the name of an object about the sandboxes. */}}
{{- define "podagent.metadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ index . 1 }}
  namespace: {{ include "podagent.namespace" $root }}
  labels:
    {{- include "podagent.labels" $root | nindent 4 }}
{{- end -}}

{{/* binding takes the root and the name of a Role, which the account gets. */}}
{{- define "podagent.binding" -}}
{{- $root := index . 0 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
{{ include "podagent.metadata" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ index . 1 }}
subjects:
  - kind: ServiceAccount
    name: {{ $root.Values.serviceAccount.name }}
    namespace: {{ $root.Release.Namespace }}
{{- end -}}

{{/* sandboxes is the podSelector of their policies. */}}
{{- define "podagent.sandboxes" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/managed-by: podagent
{{- end -}}
