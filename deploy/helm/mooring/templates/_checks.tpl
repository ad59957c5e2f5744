{{/* Checks that the schema of values cannot express, and checks against the cluster. */}}
{{- define "mooring.check" -}}
{{- include "mooring.checkNamespace" . -}}
{{- include "mooring.checkReplicas" . -}}
{{- include "mooring.checkContainerd" . -}}
{{- include "mooring.checkPlugin" . -}}
{{- include "mooring.checkFencing" . -}}
{{- include "mooring.checkSetters" . -}}
{{- end }}

{{/* Webhooks and policies skip the release's namespace, so it must not be one of Kubernetes' own. */}}
{{- define "mooring.checkNamespace" -}}
{{- if has .Release.Namespace (list "default" "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "the release's namespace is %q, and webhooks and policies skip this namespace: use a namespace for Mooring alone: --namespace=mooring-system" .Release.Namespace) -}}
{{- end -}}
{{- end }}

{{- define "mooring.checkReplicas" -}}
{{- if and (include "mooring.serves" .) (eq (include "mooring.failurePolicy" .) "Fail") (eq (int .Values.controller.replicas) 0) -}}
{{- fail "controller.replicas is 0 and webhooks.failurePolicy is Fail: the API server would refuse each change, start and migration of a VM: want at least 1, or webhooks.enabled=false" -}}
{{- end -}}
{{- end }}

{{- define "mooring.checkContainerd" -}}
{{- if and .Values.containerd.restart (not .Values.containerd.configure) -}}
{{- fail "containerd.restart: without containerd.configure there is no change to restart for: want containerd.configure=true, too" -}}
{{- end -}}
{{- if and .Values.containerd.restart .Release.IsInstall -}}
{{- fail "containerd.restart: the first installation would restart containerd on all nodes at once: install without it, then run `helm upgrade` with it, which restarts agent.maxUnavailable nodes at a time (helm template: --is-upgrade)" -}}
{{- end -}}
{{- end }}

{{- define "mooring.checkPlugin" -}}
{{- if .Values.kubevirt.plugin.enabled -}}
{{- if not .Values.agent.enabled -}}
{{- fail "kubevirt.plugin.enabled: agent.enabled is false, and without the agent VMs with a memory-lock annotation would not start: want kubevirt.plugin.enabled=false" -}}
{{- end -}}
{{- if not (.Capabilities.APIVersions.Has "plugin.kubevirt.io/v1alpha1/Plugin") -}}
{{- fail "kubevirt.plugin.enabled: the cluster does not know plugin.kubevirt.io/v1alpha1 Plugin: want KubeVirt 1.9, or kubevirt.plugin.enabled=false (helm template: --api-versions plugin.kubevirt.io/v1alpha1/Plugin)" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Without the agent, no pod with the finalizer would ever end. */}}
{{- define "mooring.checkFencing" -}}
{{- if and .Values.fencing.enabled (not (and .Values.agent.enabled (include "mooring.serves" .))) -}}
{{- fail "fencing.enabled: deleted pods wait for the agent's word, and webhooks protect new ones: want agent.enabled=true, controller.enabled=true and webhooks.enabled=true, or fencing.enabled=false" -}}
{{- end -}}
{{- if and .Values.fencing.enabled (eq (int .Values.controller.replicas) 0) -}}
{{- fail "fencing.enabled: controller.replicas is 0, and without a controller deleted pods stay: want at least 1" -}}
{{- end -}}
{{- end }}

{{/* KubeVirt's controller creates the launchers. It is in the namespace of the KubeVirt object. */}}
{{- define "mooring.checkSetters" -}}
{{- if and .Values.annotations.policy .Values.annotations.setters (.Capabilities.APIVersions.Has "kubevirt.io/v1/KubeVirt") -}}
{{- range (lookup "kubevirt.io/v1" "KubeVirt" "" "").items -}}
{{- $namespace := .metadata.namespace -}}
{{- if not (include "mooring.maySetIn" (list $.Values.annotations.setters $namespace)) -}}
{{- fail (printf "annotations.setters: KubeVirt's controller in namespace %q is missing, so the API server would refuse launchers in mode enforce: use --set-json 'annotations.setters=[{\"kind\":\"ServiceAccount\",\"name\":\"kubevirt-controller\",\"namespace\":%q}]'" $namespace $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Whether KubeVirt's controller is a setter, by one of its names: call with (list SETTERS NAMESPACE). */}}
{{- define "mooring.maySetIn" -}}
{{- $namespace := index . 1 -}}
{{- $user := printf "system:serviceaccount:%s:kubevirt-controller" $namespace -}}
{{- $groups := list "system:authenticated" "system:serviceaccounts" (printf "system:serviceaccounts:%s" $namespace) -}}
{{- range index . 0 -}}
{{- if or (and (eq .kind "ServiceAccount") (eq .name "kubevirt-controller") (eq (toString .namespace) $namespace))
  (and (eq .kind "User") (eq .name $user)) (and (eq .kind "Group") (has .name $groups)) -}}
true
{{- end -}}
{{- end -}}
{{- end }}
