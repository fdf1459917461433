{{/* mcpFlags is the list of the server's flags: those that the chart sets, and the
settings. */}}
{{- define "podagent.mcpFlags" -}}
{{- $m := .Values.mcp -}}
{{- $flags := list "--in-cluster" (printf "--namespace=%s" (include "podagent.namespace" .)) -}}
{{- $flags = append $flags (printf "--identity-secret=%s/%s" .Release.Namespace .Values.rbac.identity.secret) -}}
{{- $flags = append $flags "--token-file=/var/run/secrets/podagent/token" -}}
{{- if $m.allowRemote -}}
{{- $flags = concat $flags (list (printf "--http=0.0.0.0:%v" (int $m.port)) "--allow-remote") -}}
{{- else -}}
{{- $flags = append $flags (printf "--http=127.0.0.1:%v" (int $m.port)) -}}
{{- end -}}
{{- toYaml (concat $flags (include "podagent.settingFlags" $m.settings | fromJsonArray)) -}}
{{- end -}}
