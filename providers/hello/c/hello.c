// A provider in C: each Node has a machine, which is the Node itself.
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define NAME "hello-c"

static provider_string_t text(const char *text) {
    provider_string_t string;
    provider_string_dup(&string, text);
    return string;
}

// What is empty is not told.
void exports_ccm_cloud_meta_describe(exports_ccm_cloud_meta_descriptor_t *ret) {
    memset(ret, 0, sizeof *ret);
    ret->name = text(NAME);
    ret->version = text("0.1.0");
    ret->revision = text("1");
    ret->provider_id_schemes.ptr = malloc(sizeof *ret->provider_id_schemes.ptr);
    ret->provider_id_schemes.ptr[0] = text(NAME);
    ret->provider_id_schemes.len = 1;
}

bool exports_ccm_cloud_meta_offers(exports_ccm_cloud_meta_list_capability_t *ret, exports_ccm_cloud_meta_failure_t *err) {
    memset(ret, 0, sizeof *ret);
    return true;
}

bool exports_ccm_cloud_meta_check(bool online, exports_ccm_cloud_meta_list_problem_t *ret, exports_ccm_cloud_meta_failure_t *err) {
    memset(ret, 0, sizeof *ret);
    return true;
}

static provider_string_t machine_id(const ccm_cloud_types_node_t *node) {
    if (node->provider_id.is_some) return node->provider_id.val;
    const size_t prefix = strlen(NAME "://");
    provider_string_t id = {.len = prefix + node->name.len};
    id.ptr = malloc(id.len);
    memcpy(id.ptr, NAME "://", prefix);
    memcpy(id.ptr + prefix, node->name.ptr, node->name.len);
    return id;
}

// What the call gives belongs to it, and what it returns is freed for it.
bool exports_ccm_cloud_instances_find(exports_ccm_cloud_instances_list_node_t *nodes, exports_ccm_cloud_instances_need_t need,
    exports_ccm_cloud_instances_list_finding_t *ret, exports_ccm_cloud_instances_failure_t *err) {
    provider_string_t message;
    provider_string_set(&message, "hello from C");
    ccm_cloud_log_attributes_t fields = {0};
    ccm_cloud_log_write(CCM_CLOUD_LOG_LEVEL_INFO, &message, &fields);

    ret->len = nodes->len;
    ret->ptr = calloc(nodes->len, sizeof *ret->ptr);
    for (size_t i = 0; i < nodes->len; i++) {
        ret->ptr[i].tag = EXPORTS_CCM_CLOUD_INSTANCES_FINDING_FOUND;
        exports_ccm_cloud_instances_instance_t *machine = &ret->ptr[i].val.found;
        machine->provider_id = machine_id(&nodes->ptr[i]);
        machine->instance_type = text("hello");
        machine->addresses.ptr = nodes->ptr[i].addresses.ptr;
        machine->addresses.len = nodes->ptr[i].addresses.len;
        machine->state = EXPORTS_CCM_CLOUD_INSTANCES_STATE_RUNNING;
    }
    return true;
}
