{{- define "stanchion.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "stanchion.labels" -}}
app.kubernetes.io/name: stanchion
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "stanchion.selector" -}}
app.kubernetes.io/name: stanchion
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "stanchion.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "stanchion.metricsScheme" -}}
{{- ternary "HTTPS" "HTTP" (ne .Values.metrics.tls.existingSecret "") -}}
{{- end -}}

{{- define "stanchion.environment" -}}
- name: RAY_AUTH_MODE
  value: token
# ops/docs/CLUSTER.md has the reasons.
{{- range $name, $value := dict "RAY_gcs_rpc_server_reconnect_timeout_s" "1000000000" "RAY_health_check_period_ms" "500" "RAY_health_check_timeout_ms" "5000" "RAY_health_check_failure_threshold" "2" }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
- name: STANCHION_EDGE_HEALTH_PORT
  value: "8584"
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- if .Values.tls.existingSecret }}
- name: STANCHION_TLS_CERT_FILE
  value: /etc/stanchion/tls/tls.crt
- name: STANCHION_TLS_KEY_FILE
  value: /etc/stanchion/tls/tls.key
{{- end }}
{{- if .Values.metrics.tls.existingSecret }}
- name: STANCHION_METRICS_TLS_CERT_FILE
  value: /etc/stanchion/metrics-tls/tls.crt
- name: STANCHION_METRICS_TLS_KEY_FILE
  value: /etc/stanchion/metrics-tls/tls.key
{{- end }}
{{- if .Values.links.existingSecret }}
- name: STANCHION_LINKS
  value: /etc/stanchion/links/links.toml
{{- end }}
{{- end -}}

{{- define "stanchion.tlsMount" -}}
{{- if .Values.tls.existingSecret }}
- {name: tls, mountPath: /etc/stanchion/tls, readOnly: true}
{{- end }}
{{- if .Values.metrics.tls.existingSecret }}
- {name: metrics-tls, mountPath: /etc/stanchion/metrics-tls, readOnly: true}
{{- end }}
{{- if .Values.links.existingSecret }}
- {name: links, mountPath: /etc/stanchion/links, readOnly: true}
{{- end }}
{{- end -}}

{{- define "stanchion.tlsVolume" -}}
{{- if .Values.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ .Values.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- if .Values.metrics.tls.existingSecret }}
- name: metrics-tls
  secret:
    secretName: {{ .Values.metrics.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- if .Values.links.existingSecret }}
- name: links
  secret:
    secretName: {{ .Values.links.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "stanchion.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "stanchion.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
{{- end -}}
