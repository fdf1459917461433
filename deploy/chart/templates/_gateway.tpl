{{/* gatewayFlags is the list of the gateway's flags: those that the chart sets, and the
settings. */}}
{{- define "podagent.gatewayFlags" -}}
{{- $g := .Values.gateway -}}
{{- $flags := list "--in-cluster" (printf "--namespace=%s" (include "podagent.namespace" .)) -}}
{{- $flags = append $flags (printf "--identity-secret=%s/%s" .Release.Namespace .Values.rbac.identity.secret) -}}
{{- $flags = append $flags (printf "--listen=0.0.0.0:%v" (int $g.port)) -}}
{{- if $g.tls.secret -}}
{{- $flags = concat $flags (list "--tls-cert=/etc/podagent/tls/tls.crt" "--tls-key=/etc/podagent/tls/tls.key") -}}
{{- else -}}
{{- $flags = append $flags "--allow-remote" -}}
{{- end -}}
{{- $flags = concat $flags (list (printf "--health-listen=0.0.0.0:%v" (int $g.healthPort)) (printf "--drain-delay=%vs" (int $g.drainSeconds))) -}}
{{- $flags = append $flags "--keys=/etc/podagent/keys/keys.yaml" -}}
{{- if $g.serviceAccounts -}}
{{- $flags = append $flags "--service-accounts" -}}
{{- end -}}
{{- with $g.domain -}}
{{- $flags = append $flags (printf "--domain=%s" .) -}}
{{- end -}}
{{- if $g.linkKeys.secret -}}
{{- $flags = append $flags "--link-key-file=/etc/podagent/links/keys" -}}
{{- end -}}
{{- if ($g.ssh).enabled -}}
{{- $flags = append $flags (printf "--ssh-listen=0.0.0.0:%v" (int $g.ssh.port)) -}}
{{- if $g.ssh.hostKey.secret -}}
{{- $flags = append $flags "--ssh-host-key=/etc/podagent/ssh/host-key" -}}
{{- end -}}
{{- end -}}
{{- with $g.audit.to -}}
{{- $flags = concat $flags (list (printf "--audit=%s" (eq . "stdout" | ternary "-" "/var/log/podagent")) "--audit-key-file=/etc/podagent/audit/key.pem") -}}
{{- end -}}
{{- toYaml (concat $flags (include "podagent.settingFlags" $g.settings | fromJsonArray)) -}}
{{- end -}}

{{/* gatewayMetadata: takes the root and the name of an object of the gateway. */}}
{{- define "podagent.gatewayMetadata" -}}
{{ include "podagent.ownMetadata" . }}
    app.kubernetes.io/component: gateway
{{- end -}}
