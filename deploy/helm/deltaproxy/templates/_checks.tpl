{{/* Values that exclude or require each other. Each message names the values. */}}
{{- define "deltaproxy.checks" -}}
{{- $config := .Values.config }}
{{- if $config.existingConfigMap }}
{{- if $config.apiServer }}
{{- fail "config.apiServer and config.existingConfigMap are mutually exclusive: set config.existingConfigMap to \"\"" }}
{{- end }}
{{- if $config.kubeProxy }}
{{- fail "config.kubeProxy and config.existingConfigMap are mutually exclusive: set config.existingConfigMap to \"\"" }}
{{- end }}
{{- if .Values.metricsBindAddress }}
{{- fail (printf "metricsBindAddress requires a created ConfigMap: set config.existingConfigMap to \"\", or metricsBindAddress in the ConfigMap `%s`" $config.existingConfigMap) }}
{{- end }}
{{- else if not $config.apiServer }}
{{- fail "config.apiServer is required if config.existingConfigMap is empty" }}
{{- end }}
{{- $mode := get $config.kubeProxy "mode" | default "iptables" }}
{{- if ne $mode "iptables" }}
{{- fail (printf "config.kubeProxy.mode: `%s` is not supported, use `iptables`" $mode) }}
{{- end }}
{{- range $field := list "apiVersion" "kind" "clientConnection" "metricsBindAddress" "hostnameOverride" }}
{{- if hasKey $config.kubeProxy $field }}
{{- fail (printf "config.kubeProxy.%s is set by the chart" $field) }}
{{- end }}
{{- end }}
{{- /* In a cluster, also what kube-proxy's DaemonSet selects; without one, `lookup` finds nothing. */}}
{{- $kubeProxy := lookup "apps/v1" "DaemonSet" "kube-system" "kube-proxy" }}
{{- if $kubeProxy }}
{{- if not .Values.canary }}
{{- fail "canary: false would run two proxies on a node: DaemonSet kube-system/kube-proxy exists. Set canary to true, or delete that DaemonSet" }}
{{- end }}
{{- $affinity := dig "spec" "template" "spec" "affinity" "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $kubeProxy }}
{{- if not (contains "\"key\":\"deltaproxy\",\"operator\":\"NotIn\"" (toJson $affinity)) }}
{{- fail "canary: true would run two proxies on nodes with the label deltaproxy=enabled: patch DaemonSet kube-system/kube-proxy first (deploy/docs/canary.md)" }}
{{- end }}
{{- end }}
{{- range $index, $arg := .Values.extraArgs }}
{{- $flag := regexFind "^--[a-z0-9-]+" $arg }}
{{- if has $flag (list "--config" "--hostname-override" "--init-only" "--cleanup" "--dry-run" "--manifests" "--kubeconfig") }}
{{- fail (printf "extraArgs[%d]: `%s` is not allowed in the chart" $index $flag) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "deltaproxy.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "deltaproxy.name" -}}
{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- end }}

{{- define "deltaproxy.labels" -}}
k8s-app: deltaproxy
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "deltaproxy.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Container fields that the init container and the one that runs have in common. */}}
{{- define "deltaproxy.container" -}}
image: {{ include "deltaproxy.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
