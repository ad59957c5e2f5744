{{/* Labels of a part's pods, and of its selectors, which cannot change: call with its name. */}}
{{- define "mooring.labels" -}}
app.kubernetes.io/name: mooring
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* Labels of an object of a part: call with (list $ "agent"). */}}
{{- define "mooring.objectLabels" -}}
{{ include "mooring.labels" (index . 1) }}
{{- with index . 0 }}
app.kubernetes.io/part-of: mooring
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
{{- end }}

{{/* The image of a part: call with (list $ "agent"). */}}
{{- define "mooring.image" -}}
{{- $ := index . 0 -}}
{{- $images := $.Values.images -}}
{{- $image := index $images (index . 1) -}}
{{- if not $images.registry -}}
{{- fail "images.registry is empty: want the prefix of the images' names, such as --set images.registry=registry.example.com/mooring; docs/how-to/install.md shows how to build and push them" -}}
{{- end -}}
{{- trimSuffix "/" $images.registry }}/{{ $image.name -}}
{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $.Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* The node policy with the chart's mode. A policy that names a mode must name the same. */}}
{{- define "mooring.policy" -}}
{{- $policy := .Values.agent.policy | default (.Files.Get "files/policy/observe.yaml" | replace "\nmode: observe\n" (printf "\nmode: %s\n" .Values.mode)) -}}
{{- $mode := (fromYaml $policy).mode -}}
{{- if not $mode -}}
{{- $policy = printf "mode: %s\n%s" .Values.mode (trimPrefix "---\n" $policy) -}}
{{- else if ne $mode .Values.mode -}}
{{- fail (printf "agent.policy has mode %q, and mode is %q: want the same in both, or no mode in agent.policy" (toString $mode) .Values.mode) -}}
{{- end -}}
{{ trim $policy }}
{{- end }}

{{/* Excludes kube-system, the release's own namespace and NAMES: call with (list $ NAMES). */}}
{{- define "mooring.excluded" -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: {{ concat (list "kube-system" (index . 0).Release.Namespace) (index . 1) | uniq | toJson }}
{{- end }}

{{/* Whether the controller serves webhooks, and the API server calls them. */}}
{{- define "mooring.serves" -}}
{{- if and .Values.controller.enabled .Values.webhooks.enabled }}true{{ end -}}
{{- end }}

{{/* cert-manager's Secret. Another name than the controller's own Secret: their keys differ. */}}
{{- define "mooring.certManagerSecret" -}}
mooring-webhook-tls
{{- end }}

{{/* Whether the controller keeps its certificates and the webhooks' caBundle. */}}
{{- define "mooring.keepsCertificates" -}}
{{- if and (include "mooring.serves" .) (not .Values.webhooks.certManager.enabled) }}true{{ end -}}
{{- end }}

{{/* For cert-manager, which writes caBundle. */}}
{{- define "mooring.caInjection" -}}
{{- if .Values.webhooks.certManager.enabled -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/mooring-webhooks
{{- end -}}
{{- end }}

{{/* The failure policy of the webhooks for VMs. In mode observe they must refuse nothing. */}}
{{- define "mooring.failurePolicy" -}}
{{- if eq .Values.mode "enforce" }}{{ .Values.webhooks.failurePolicy }}{{ else }}Ignore{{ end -}}
{{- end }}

{{/* The directory of plugins' sockets, at its path in virt-handler, and the agent's socket. */}}
{{- define "mooring.pluginSockets" -}}
/var/run/kubevirt/plugins
{{- end }}

{{- define "mooring.pluginSocket" -}}
{{ include "mooring.pluginSockets" . }}/mooring.sock
{{- end }}

{{/* Whether the controller looks for VMs to halt: the last of its flags counts. */}}
{{- define "mooring.halts" -}}
{{- $halts := true -}}
{{- range .Values.controller.args -}}
{{- if regexMatch "^--halt-vms(=|$)" . -}}
{{- $halts = not (regexMatch "=(0|f|F|false|False|FALSE)$" .) -}}
{{- end -}}
{{- end -}}
{{- if $halts }}true{{ end -}}
{{- end }}

{{/* Whether the controller resizes VMs: only launchers with mooring-shim can be resized. */}}
{{- define "mooring.resizes" -}}
{{- if and (include "mooring.serves" .) .Values.webhooks.shimImage }}true{{ end -}}
{{- end }}

{{/* The names of annotations of quotas: the same for the controller and for uninstall. */}}
{{- define "mooring.quotaFlags" -}}
- --annotation-prefix={{ .annotationPrefix }}
- --manager-annotation={{ .managerAnnotation }}
- --manager-label={{ .managerLabel }}
{{- end }}

{{/* Pod security "restricted". */}}
{{- define "mooring.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "mooring.restrictedContainer" -}}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Egress to the API server. Pods know its address, so they need no DNS. */}}
{{- define "mooring.toAPIServer" -}}
- ports:
  {{- range .Values.networkPolicy.apiServerPorts }}
  - port: {{ . }}
  {{- end }}
{{- end }}

{{/* The common fields of webhooks: call with (list $ PATH SIDE-EFFECTS FAILURE-POLICY). A fifth
element "reserved" limits the webhook to namespaces with reservations, "fenced" to those with fencing. */}}
{{- define "mooring.webhook" -}}
{{- with index . 0 -}}
clientConfig:
  service:
    name: mooring-controller
    namespace: {{ .Release.Namespace }}
    path: {{ index $ 1 }}
namespaceSelector:
  {{- include "mooring.excluded" (list . .Values.webhooks.excludedNamespaces) | nindent 2 }}
  {{- if gt (len $) 4 }}
  matchLabels:
    {{ ternary "fencing.mooring.dev" "reserved.quota.mooring.dev" (eq (index $ 4) "fenced") }}: "true"
  {{- end }}
matchPolicy: Equivalent
failurePolicy: {{ index $ 3 }}
timeoutSeconds: {{ .Values.webhooks.timeoutSeconds }}
sideEffects: {{ index $ 2 }}
admissionReviewVersions: [v1]
{{- end -}}
{{- end }}

{{/* The admission policies. The binding of each has its name. */}}
{{- define "mooring.policies" -}}
{{- list "mooring-annotations" "mooring-launchers" "mooring-namespace-annotations" "mooring-quota-annotations" "mooring-vm-annotations" | toJson -}}
{{- end }}

{{/* The resources that the controller may "set". It writes Mooring's own prefix to namespaces only if configured. */}}
{{- define "mooring.setByController" -}}
[quotaannotations{{ if regexMatch "[.]mooring[.]dev/$" .Values.controller.quota.annotationPrefix }}, namespaceannotations{{ end }}]
{{- end }}

{{/* Whether a request is one of mooring-controller. */}}
{{- define "mooring.isController" -}}
request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:mooring-controller'
{{- end }}

{{/* A condition of policies for requests of mooring-controller. */}}
{{- define "mooring.byController" -}}
- name: by-controller
  expression: {{ include "mooring.isController" . }}
{{- end }}

{{/* Whether an update of a pod removes the finalizer of fencing. */}}
{{- define "mooring.releases" -}}
'mooring.dev/vm' in oldObject.metadata.?finalizers.orValue([]) && !('mooring.dev/vm' in object.metadata.?finalizers.orValue([]))
{{- end }}

{{/* The keys that a request sets, changes or removes: call with "annotations" or "labels". */}}
{{- define "mooring.changed" -}}
- name: before
  expression: "oldObject == null ? {} : oldObject.metadata.?{{ . }}.orValue({})"
- name: after
  expression: object.metadata.?{{ . }}.orValue({})
{{ include "mooring.difference" . }}
{{- end }}

{{- define "mooring.difference" -}}
- name: changed
  expression: >-
    variables.after.filter(k, !(k in variables.before) || variables.before[k] != variables.after[k])
    + variables.before.filter(k, !(k in variables.after))
{{- end }}

{{/* Whether two texts are the same quantity: call with two CEL expressions. */}}
{{- define "mooring.sameQuantity" -}}
{{- $a := index . 0 }}{{ $b := index . 1 -}}
({{ $a }} == {{ $b }} || isQuantity({{ $a }}) && isQuantity({{ $b }}) && quantity({{ $a }}).compareTo(quantity({{ $b }})) == 0)
{{- end }}

{{/* A refusal's text: call with field of the domain, dimension, annotation, and suffix of variables. */}}
{{- define "mooring.ownedSize" -}}
{{- $field := index . 0 }}{{ $dimension := index . 1 }}{{ $key := index . 2 }}{{ $suffix := index . 3 -}}
'spec.template.spec.domain.{{ $field }}: the {{ $dimension }} of the VM is '
+ variables.before[?'{{ $key }}'].orValue(variables.after[?'{{ $key }}'].orValue(variables.seen{{ $suffix }})) + ' by annotation {{ $key }}'
+ ', and ' + variables.before{{ $suffix }} + ' by its template. Change only the annotation. To change the template, run "'
+ variables.annotate + '{{ $key }}=' + variables.before{{ $suffix }} + '", wait for the reason Resized in'
+ ' status.resize.mooring.dev, and give template and annotation the same new value in one edit. Or stop the VM'
{{- end }}

{{/* The metadata that KubeVirt copies to a launcher pod, or null: call with "object" or "oldObject". */}}
{{- define "mooring.launcherMetadata" -}}
request.resource.resource == 'virtualmachineinstances' ? {{ . }}.metadata
: request.resource.group == 'instancetype.kubevirt.io' ? {{ . }}.spec
: request.resource.group == 'pool.kubevirt.io' ? {{ . }}.spec.?virtualMachineTemplate.?spec.?template.?metadata.orValue(null)
: request.resource.group == 'snapshot.kubevirt.io' ? {{ . }}.spec.?source.?virtualMachine.?spec.?template.?metadata.orValue(null)
: {{ . }}.spec.?template.?metadata.orValue(null)
{{- end }}

{{/* Whether an annotation is Mooring's. */}}
{{- define "mooring.isOurs" -}}
k.endsWith('.mooring.dev') || k.contains('.mooring.dev/')
{{- end }}

{{/* Passes users who may "set" a resource that exists for RBAC only: call with
     (list "labels" RESOURCE), and an expression for the namespace if the request may have none. */}}
{{- define "mooring.maySet" -}}
{{- $namespace := "request.namespace" -}}
{{- $where := "in namespace ' + request.namespace" -}}
{{- if gt (len .) 2 -}}
{{- $namespace = index . 2 -}}
{{- $where = printf "in ' + (%s == '' ? 'all namespaces' : 'namespace ' + %s)" $namespace $namespace -}}
{{- end -}}
validations:
- expression: >-
    variables.ours.size() == 0
    || authorizer.group('mooring.dev').resource('{{ index . 1 }}').namespace({{ $namespace }}).check('set').allowed()
  reason: Forbidden
  message: these {{ index . 0 }} take the verb "set" for {{ index . 1 }}.mooring.dev in the namespace
  messageExpression: >-
    request.userInfo.username + ' may not change ' + variables.ours.join(', ')
    + ': it takes the verb "set" for {{ index . 1 }}.mooring.dev {{ $where }}
{{- end }}

{{- define "mooring.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "mooring.testHook" -}}
helm.sh/hook: test
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The parts of this release, for `mooring verify`. */}}
{{- define "mooring.parts" -}}
{{- $parts := list -}}
{{- if or .Values.crds.install .Values.controller.enabled -}}{{- $parts = append $parts "crds" -}}{{- end -}}
{{- if .Values.agent.enabled -}}{{- $parts = append $parts "agent" -}}{{- end -}}
{{- if .Values.fence.enabled -}}{{- $parts = append $parts "fence" -}}{{- end -}}
{{- if .Values.controller.enabled -}}{{- $parts = append $parts "controller" -}}{{- end -}}
{{- if include "mooring.serves" . -}}{{- $parts = append $parts "webhooks" -}}{{- end -}}
{{- join "," $parts -}}
{{- end }}

{{/* A busy node takes minutes to start the agent, and many seconds to answer a probe. With kubelet's
     usual second for an answer, the agent would be killed just then. */}}
{{- define "mooring.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 15
  timeoutSeconds: 15
  failureThreshold: 8
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
