{{- /* SPDX-License-Identifier: Apache-2.0
     A policy that has labelled Pods traced. It is a JSON patch, because an apply configuration may
     not hold atomic lists and maps, such as a container's command or a field's reference.
     Arguments: root, name, sidecar (whether the Pod gets a sysomd of its own). */ -}}

{{- define "sysom.policy" -}}
{{- $root := .root -}}
{{- $env := include "sysom.traced-env" $root | fromYamlArray -}}
{{- $volumes := include (.sidecar | ternary "sysom.volumes" "sysom.node-volumes") $root | fromYamlArray -}}
{{- $daemon := include "sysom.sidecar" $root | fromYaml -}}
{{- $installer := include "sysom.installer" $root | fromYaml -}}
{{- $less := include "sysom.restricted" $root | fromYaml | include "sysom.cel" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    app.kubernetes.io/name: sysom
spec:
  # A Pod that this can't be applied to starts all the same, untraced.
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints:
    objectSelector:
      matchLabels:
        sysom.io/trace: enabled
    resourceRules:
      - apiGroups: [""]
        apiVersions: ["v1"]
        operations: ["CREATE"]
        resources: ["pods"]
  variables:
    - name: labels
      expression: >-
        has(object.metadata.labels) ? object.metadata.labels : {}
    - name: job
      expression: >-
        [
          {{- range $i, $label := $root.Values.policy.jobLabels }}{{ if $i }},{{ end }}
          {{ toJson $label }}
          {{- end }}
        ].filter(l, l in variables.labels).map(l, variables.labels[l])
    # The levels baseline and restricted of Pod Security refuse a Pod with sysomd's privileges.
    - name: privileged
      expression: >-
        !(has(namespaceObject.metadata.labels) &&
          "pod-security.kubernetes.io/enforce" in namespaceObject.metadata.labels &&
          namespaceObject.metadata.labels["pod-security.kubernetes.io/enforce"] != "privileged") &&
        !("sysom.io/privileges" in variables.labels &&
          variables.labels["sysom.io/privileges"] == "none")
    # 0, 1, ... and the names of each container's variables.
    - name: at
      expression: >-
        object.spec.containers.map(c, object.spec.containers.map(o, o.name).indexOf(c.name))
    - name: env
      expression: >-
        object.spec.containers.map(c, has(c.env) ? c.env.map(e, e.name) : [])
    {{- if .sidecar }}
    # Without privileges sysomd must run as the job's user. -1: which one is not known here.
    - name: user
      expression: >-
        has(object.spec.containers[0].securityContext) &&
          has(object.spec.containers[0].securityContext.runAsUser) ?
          object.spec.containers[0].securityContext.runAsUser :
        has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) ?
          object.spec.securityContext.runAsUser : -1
    {{- end }}
    # Not: Windows, what would not start, and a Pod that has a part of this already.
    - name: wanted
      expression: >-
        !(has(object.spec.os) && object.spec.os.name != "linux") &&
        {{- if .sidecar }}
        (variables.privileged || variables.user > 0) &&
        {{- else }}
        variables.privileged &&
        {{- end }}
        !(has(object.spec.volumes) &&
          object.spec.volumes.exists(v, v.name in ["sysom", "sysom-state", "sysom-tls"])) &&
        !(object.spec.containers +
          (has(object.spec.initContainers) ? object.spec.initContainers : []))
        .exists(c, c.name in ["sysomd", "sysom-preload"] ||
          (has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath == "/sysom")))
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          !variables.wanted ? [] : (

          (has(object.spec.volumes) ? [] :
            [JSONPatch{op: "add", path: "/spec/volumes", value: []}])
          {{- range $volumes }}
          + [JSONPatch{op: "add", path: "/spec/volumes/-", value:
            {{- include "sysom.cel" . | nindent 12 }}}]
          {{- end }}
          {{- if .sidecar }}

          + (has(object.spec.initContainers) ? [] :
            [JSONPatch{op: "add", path: "/spec/initContainers", value: []}])
          {{- range list $installer $daemon }}
          {{- $all := include "sysom.cel" .securityContext }}
          {{- $_ := set . "securityContext" (dict "$cel" (printf "variables.privileged ? %s : %s" $all $less)) }}
          + [JSONPatch{op: "add", path: "/spec/initContainers/-", value:
            {{- include "sysom.cel" . | nindent 12 }}}]
          {{- end }}

          + (has(object.spec.shareProcessNamespace) ||
            (has(object.spec.hostPID) && object.spec.hostPID) ? [] :
            [JSONPatch{op: "add", path: "/spec/shareProcessNamespace", value: true}])
          {{- end }}

          + variables.at.filter(i, !has(object.spec.containers[i].volumeMounts)).map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/volumeMounts", value: []})
          + variables.at.map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/volumeMounts/-", value:
            {{- include "sysom.cel" (include "sysom.traced-mount" $root | fromYaml) | nindent 12 }}})

          + variables.at.filter(i, !has(object.spec.containers[i].env)).map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/env", value: []})
          + variables.at.filter(i, "LD_PRELOAD" in variables.env[i]).map(i, JSONPatch{
            op: "replace", path: "/spec/containers/" + string(i) + "/env/" +
              string(variables.env[i].lastIndexOf("LD_PRELOAD")) + "/name",
            value: "LD_PRELOAD_OF_POD"})
          + variables.at.filter(i, "LD_PRELOAD" in variables.env[i]).map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/env/" +
              string(variables.env[i].lastIndexOf("LD_PRELOAD") + 1),
            value: {"name": "LD_PRELOAD",
              "value": "$(LD_PRELOAD_OF_POD):/sysom/$LIB/libsysom_preload.so"}})
          + variables.at.filter(i, !("LD_PRELOAD" in variables.env[i])).map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/env/-",
            value: {"name": "LD_PRELOAD", "value": "/sysom/$LIB/libsysom_preload.so"}})
          {{- range $env }}
          + variables.at.filter(i, !({{ toJson .name }} in variables.env[i])).map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/env/-", value:
            {{- include "sysom.cel" . | nindent 12 }}})
          {{- end }}
          + variables.at.filter(i, !("CONTAINER_NAME" in variables.env[i])).map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/env/-",
            value: {"name": "CONTAINER_NAME", "value": object.spec.containers[i].name}})
          + variables.at.filter(i, size(variables.job) > 0 &&
            !("SYSOM_JOB" in variables.env[i])).map(i, JSONPatch{
            op: "add", path: "/spec/containers/" + string(i) + "/env/-",
            value: {"name": "SYSOM_JOB", "value": variables.job[0]}})
          )
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    app.kubernetes.io/name: sysom
spec:
  policyName: {{ .name }}
{{- end }}
