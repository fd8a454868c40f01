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
{{- else if regexMatch "^https://kubernetes([.]default([.]svc.*)?)?(:[0-9]+)?$" $config.apiServer }}
{{- fail (printf "config.apiServer: `%s` is a Service, which does not work before this program runs" $config.apiServer) }}
{{- end }}
{{- $isLocal := not (or $config.existingConfigMap .Values.metricsBindAddress (contains "--metrics-bind-address-override=" (join " " .Values.extraArgs))) }}
{{- if and .Values.monitoring.podMonitor $isLocal }}
{{- fail "monitoring.podMonitor requires metricsBindAddress: /metrics listens on 127.0.0.1" }}
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
{{- if .Values.shadow }}
{{- if .Values.canary }}
{{- fail "shadow and canary are mutually exclusive: set canary to false" }}
{{- end }}
{{- if .Values.monitoring.podMonitor }}
{{- fail "shadow and monitoring.podMonitor are mutually exclusive: dashboards would show the shadow as a proxy" }}
{{- end }}
{{- if .Values.metricsBindAddress }}
{{- fail "shadow and metricsBindAddress are mutually exclusive: add --metrics-bind-address-override to extraArgs" }}
{{- end }}
{{- end }}
{{- $kubeProxy := lookup "apps/v1" "DaemonSet" "kube-system" "kube-proxy" }}
{{- if and $kubeProxy (not .Values.shadow) }}
{{- if not .Values.canary }}
{{- fail "canary: false would run two proxies on a node: DaemonSet kube-system/kube-proxy exists. Set canary to true, or delete that DaemonSet" }}
{{- end }}
{{- $affinity := dig "spec" "template" "spec" "affinity" "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $kubeProxy }}
{{- if not (contains "\"key\":\"deltaproxy\",\"operator\":\"NotIn\"" (toJson $affinity)) }}
{{- fail "canary: true would run two proxies on nodes with the label deltaproxy=enabled: patch DaemonSet kube-system/kube-proxy first (deploy/docs/canary.md)" }}
{{- end }}
{{- end }}
{{- include "deltaproxy.checks.configMap" . }}
{{- end }}

{{/* The ConfigMap that the Pods mount. The ClusterRole is in every cluster: it tells one from none. */}}
{{- define "deltaproxy.checks.configMap" -}}
{{- $name := .Values.config.existingConfigMap }}
{{- if and $name (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "system:node-proxier") }}
{{- $map := lookup "v1" "ConfigMap" .Release.Namespace $name }}
{{- $title := printf "config.existingConfigMap: ConfigMap %s/%s" .Release.Namespace $name }}
{{- if not $map }}
{{- fail (printf "%s does not exist" $title) }}
{{- end }}
{{- $text := dig "data" "config.conf" "" $map }}
{{- if not $text }}
{{- fail (printf "%s has no key `config.conf`: set config.existingConfigMap to \"\" and config.apiServer" $title) }}
{{- end }}
{{- $file := fromYaml $text }}
{{- $mode := get $file "mode" | default "iptables" }}
{{- if ne $mode "iptables" }}
{{- fail (printf "%s has mode `%s`, which is not supported: write `mode: iptables` into its `config.conf`" $title $mode) }}
{{- end }}
{{- $health := get $file "healthzBindAddress" | default ":10256" }}
{{- if not (or .Values.shadow (hasSuffix ":10256" $health)) }}
{{- fail (printf "%s has healthzBindAddress `%s`: the probes of the Pod connect to 127.0.0.1:10256" $title $health) }}
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
{{- $name := .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- if and .Values.shadow (not (hasSuffix "-shadow" $name)) -}}
{{ $name }}-shadow
{{- else -}}
{{ $name }}
{{- end -}}
{{- end }}

{{/* Another one for a shadow, so that nothing takes it for the proxy. */}}
{{- define "deltaproxy.app" -}}
deltaproxy{{ if .Values.shadow }}-shadow{{ end }}
{{- end }}

{{- define "deltaproxy.labels" -}}
k8s-app: {{ include "deltaproxy.app" . }}
app.kubernetes.io/name: {{ include "deltaproxy.app" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "deltaproxy.selector" -}}
app.kubernetes.io/name: {{ include "deltaproxy.app" . }}
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
