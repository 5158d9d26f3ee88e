{{/* The beginning of all names. */}}
{{- define "interpose.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which a workload finds its pods: given (list . COMPONENT). They can never change. */}}
{{- define "interpose.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of objects: given (list . COMPONENT). */}}
{{- define "interpose.labels" -}}
{{- $root := index . 0 -}}
{{ include "interpose.selectorLabels" . }}
app.kubernetes.io/part-of: interpose
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: given (list . COMPONENT). Nothing that changes with the version of the chart alone. */}}
{{- define "interpose.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "interpose.selectorLabels" . }}
app.kubernetes.io/part-of: interpose
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "interpose.image" -}}
{{- $repository := required "image.repository: where is the image?" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "interpose.secretName" -}}
{{- .Values.webhook.certificates.secretName | default (printf "%s-webhook-tls" (include "interpose.fullname" .)) -}}
{{- end -}}

{{/* Names of all ConfigMaps that the agent may read, one per line. */}}
{{- define "interpose.configMapNames" -}}
{{- $name := .Values.agent.configMaps.name -}}
- {{ $name }}
- {{ $name }}.default
{{- range concat .Values.agent.configMaps.groups (keys .Values.configuration.groups) | sortAlpha | uniq }}
- {{ $name }}.group.{{ . }}
{{- end }}
{{- range concat .Values.agent.configMaps.nodes (keys .Values.configuration.nodes) | sortAlpha | uniq }}
- {{ $name }}.node.{{ . }}
{{- end }}
{{- end -}}

{{/* What a container never needs, with what is added to it: given (list CAPABILITIES MORE). */}}
{{- define "interpose.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- with index . 0 }}
  add:
{{- toYaml . | nindent 4 }}
{{- end }}
{{- with index . 1 }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where pods go: given the values of a component. */}}
{{- define "interpose.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The pod that makes the certificate. */}}
{{- define "interpose.certsPod" -}}
{{- $name := include "interpose.fullname" . -}}
metadata:
  labels:
    {{- include "interpose.podLabels" (list . "webhook-certs") | nindent 4 }}
spec:
  serviceAccountName: {{ $name }}-webhook-certs
  automountServiceAccountToken: true
  restartPolicy: OnFailure
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
  {{- toYaml . | nindent 4 }}
  {{- end }}
  nodeSelector:
    kubernetes.io/os: linux
  {{- with .Values.webhook.tolerations }}
  tolerations:
  {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: certs
      image: {{ include "interpose.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - webhook
        - certs
        - --service={{ $name }}-webhook
        - --namespace={{ .Release.Namespace }}
        - --secret={{ include "interpose.secretName" . }}
        - --webhook-config={{ $name }}
      resources:
        requests:
          cpu: 50m
          memory: 64Mi
        limits:
          memory: 128Mi
      securityContext:
        {{- include "interpose.containerSecurity" (list (list) .Values.webhook.securityContext) | nindent 8 }}
{{- end -}}
