{{- /* SPDX-License-Identifier: Apache-2.0
     The parts that the manifests and the admission policies share. */ -}}

{{- define "sysom.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}
{{- end }}

{{- define "sysom.uplink" -}}
{{ .Values.sysomd.uplinkUrl | default (printf "tcp://sysom-aggregator.%s.svc:9471" .Release.Namespace) }}
{{- end }}

{{- define "sysom.tls-volume" -}}
{{- $secret := dict "secret" (dict "secretName" "sysom-tls" "optional" true "defaultMode" 288) -}}
{{- $node := dict "hostPath" (dict "path" "/etc/sysom/tls" "type" "DirectoryOrCreate") -}}
{{ .Values.tls.volume | default (eq .Values.mode "daemonset" | ternary $node $secret) | toYaml }}
{{- end }}

{{- /* A container's variables: the chart's own, and settings by their names in --print-config
     (SYSOM_RETENTION_JOBS for retention.jobs), which replace the chart's. Arguments: own, settings. */ -}}
{{- define "sysom.env" -}}
{{- $env := list -}}
{{- $names := list -}}
{{- range $name, $value := .settings -}}
{{- $variable := printf "SYSOM_%s" ($name | replace "." "_" | upper) -}}
{{- $names = append $names $variable -}}
{{- $env = append $env (dict "name" $variable "value" ($value | toString)) -}}
{{- end -}}
{{- $own := list -}}
{{- range fromYamlArray .own -}}
{{- if not (has .name $names) }}{{ $own = append $own . }}{{ end -}}
{{- end -}}
{{ concat $own $env | toYaml }}
{{- end }}

{{- define "sysom.tls-env" -}}
{{- if .Values.tls.enabled -}}
- name: SYSOM_TLS_CERT
  value: /etc/sysom/tls/tls.crt
- name: SYSOM_TLS_KEY
  value: /etc/sysom/tls/tls.key
- name: SYSOM_TLS_CA
  value: /etc/sysom/tls/ca.crt
{{- else -}}
- name: SYSOM_INSECURE
  value: "true"
{{- end -}}
{{- end }}

{{- /* Not empty: Helm made this Secret. */ -}}
{{- define "sysom.ours" -}}
{{ if eq "Helm" (dig "metadata" "labels" "app.kubernetes.io/managed-by" "" .) }}yes{{ end }}
{{- end }}

{{- /* A Secret with `data`; with what `old` has instead, if it is there. None, if somebody else made
     it. Arguments: root, namespace, name, old, data. */ -}}
{{- define "sysom.secret" -}}
{{- if or (not .old) (include "sysom.ours" .old) -}}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ .name | quote }}
  namespace: {{ .namespace | quote }}
  labels:
    app.kubernetes.io/name: sysom
    app.kubernetes.io/managed-by: {{ .root.Release.Service }}
data:
  {{- merge (deepCopy (dig "data" dict .old)) .data | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Not empty: Prometheus reads sysomd's metrics. */ -}}
{{- define "sysom.metrics" -}}
{{ if and (eq .Values.mode "daemonset") .Values.monitors.enabled }}yes{{ end }}
{{- end }}

{{- /* For all of sysomd's features; deploy/README.md says what each capability is for. */ -}}
{{- define "sysom.privileged" -}}
allowPrivilegeEscalation: false
runAsUser: 0
runAsNonRoot: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
  add: ["BPF", "PERFMON", "SYS_PTRACE", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH", "SYSLOG"]
seccompProfile:
  type: Unconfined
appArmorProfile:
  type: Unconfined
{{- end }}

{{- /* What Pod Security's level "restricted" allows. A process gives its ring only to root and to
     its own user, so sysomd runs as the user of the first container. */ -}}
{{- define "sysom.restricted" -}}
allowPrivilegeEscalation: false
runAsUser:
  $cel: variables.user
runAsNonRoot: true
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sysom.installer" -}}
name: sysom-preload
image: {{ include "sysom.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: ["/usr/bin/sysom", "preload", "--optional", "/sysom"]
securityContext:
  allowPrivilegeEscalation: false
  runAsUser: 0
  runAsNonRoot: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
  seccompProfile:
    type: RuntimeDefault
resources:
  requests:
    cpu: 10m
    memory: 16Mi
  limits:
    memory: 64Mi
volumeMounts:
  - name: sysom
    mountPath: /sysom
{{- end }}

{{- define "sysom.daemon-env" -}}
- name: SYSOM_SOCKET_PATH
  value: /sysom/sysomd.sock
{{- /* Not in /sysom, which the job sees too. */}}
- name: SYSOM_CONTROL_PATH
  value: /state/control.sock
- name: SYSOM_STATE_DIR
  value: /state
- name: SYSOM_UPLINK_URL
  value: {{ include "sysom.uplink" . | quote }}
{{- include "sysom.tls-env" . | nindent 0 }}
{{- if and .Values.tls.enabled (not .Values.sysomd.uplinkUrl) }}
- name: SYSOM_TLS_NAME
  value: sysom-aggregator
{{- /* For symbol files; the token is a file beside the certificate. */}}
- name: SYSOM_UPLINK_HTTP
  value: https://sysom-aggregator.{{ .Release.Namespace }}.svc:9472
- name: SYSOM_UPLINK_HTTP_CA
  value: /etc/sysom/tls/ca.crt
- name: SYSOM_UPLINK_HTTP_TOKEN
  value: /etc/sysom/tls/upload-token
{{- /* For `sysom` in this container. */}}
- name: SYSOM_URL
  value: https://sysom-aggregator.{{ .Release.Namespace }}.svc:9472
- name: SYSOM_CA
  value: /etc/sysom/tls/ca.crt
{{- end }}
{{- /* A sidecar has no port: Pods on the host's network would contend for it. */}}
- name: SYSOM_HTTP_LISTEN
  value: "{{ if include "sysom.metrics" . }}0.0.0.0:9470{{ end }}"
{{- if include "sysom.metrics" . }}
- name: SYSOM_HTTP_TOKENS
  value: /etc/sysom/http/node-tokens
{{- if .Values.tls.enabled }}
{{- /* Its name is sysomd: the PodMonitor sets it, as Prometheus knows Pods by address only. */}}
- name: SYSOM_HTTP_CERTIFICATE
  value: /etc/sysom/http/node-tls.crt
- name: SYSOM_HTTP_KEY
  value: /etc/sysom/http/node-tls.key
{{- else }}
- name: SYSOM_HTTP_INSECURE
  value: "true"
{{- end }}
{{- end }}
{{- if eq .Values.mode "daemonset" }}
- name: SYSOM_NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- else }}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: SYSOM_NODE_NAME
  value: $(POD_NAME).$(POD_NAMESPACE)
{{- end }}
{{- end }}

{{- /* No probe holds up or takes out the job's Pod: the job attaches whenever sysomd is there. */ -}}
{{- define "sysom.daemon" -}}
name: sysomd
image: {{ include "sysom.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: ["/usr/bin/sysomd"]
env:
  {{- include "sysom.env" (dict "own" (include "sysom.daemon-env" .) "settings" .Values.sysomd.settings) | nindent 2 }}
securityContext:
  {{- include "sysom.privileged" . | nindent 2 }}
resources:
  {{- .Values.sysomd.resources | toYaml | nindent 2 }}
volumeMounts:
  - name: sysom
    mountPath: /sysom
  - name: sysom-state
    mountPath: /state
  {{- if .Values.tls.enabled }}
  - name: sysom-tls
    mountPath: /etc/sysom/tls
    readOnly: true
  {{- end }}
  {{- if include "sysom.metrics" . }}
  - name: sysom-http
    mountPath: /etc/sysom/http
    readOnly: true
  {{- end }}
{{- end }}

{{- define "sysom.sidecar" -}}
{{ include "sysom.daemon" . }}
restartPolicy: Always
{{- end }}

{{- /* The attach socket and the library; the rings are memory of the job's own container. */ -}}
{{- define "sysom.volumes" -}}
- name: sysom
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
- name: sysom-state
  emptyDir:
    sizeLimit: {{ .Values.sysomd.state | quote }}
{{- if .Values.tls.enabled }}
# A certificate for this node's name, its key, and the authority of the aggregator's certificate. A
# Pod without them starts all the same, and its windows wait for them.
- name: sysom-tls
  {{- include "sysom.tls-volume" . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "sysom.node-volumes" -}}
- name: sysom
  hostPath:
    path: {{ printf "%s/job" .Values.daemonset.directory | quote }}
    type: DirectoryOrCreate
{{- end }}

{{- /* Of each traced container, beside LD_PRELOAD, its own name and the job's. */ -}}
{{- define "sysom.traced-env" -}}
- name: SYSOM_SOCKET_PATH
  value: /sysom/sysomd.sock
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}

{{- define "sysom.traced-mount" -}}
name: sysom
mountPath: /sysom
readOnly: true
{{- end }}

{{- /* A value as CEL. Kubernetes' CEL wants one type in a map, so each value is dyn(). A map with
     the key $cel is an expression. */ -}}
{{- define "sysom.cel" -}}
{{- if and (kindIs "map" .) (hasKey . "$cel") -}}
{{ index . "$cel" }}
{{- else if kindIs "map" . -}}
{{- $parts := list -}}
{{- range $key := keys . | sortAlpha -}}
{{- $parts = append $parts (printf "%s: dyn(%s)" (toJson $key) (include "sysom.cel" (index $ $key))) -}}
{{- end -}}
{ {{- join ",\n" $parts | nindent 2 }}
}
{{- else if kindIs "slice" . -}}
{{- $parts := list -}}
{{- range . -}}
{{- $parts = append $parts (include "sysom.cel" .) -}}
{{- end -}}
{{- $line := join ", " $parts -}}
{{- if and (gt (len $line) 60) (kindIs "string" (first .)) -}}
[{{ join ",\n" $parts | nindent 2 }}
]
{{- else -}}
[{{ $line }}]
{{- end -}}
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}
