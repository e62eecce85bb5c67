#include "transfer/rdma_devices.h"

#include <string.h>
#include <uct/api/uct.h>

#include "base/mem.h"

/* UCX's name for InfiniBand, RoCE and their kin. */
static bool is_rdma(const uct_component_attr_t *attr)
{
    return strcmp(attr->name, "ib") == 0;
}

static size_t add_devices(uct_component_h component, unsigned count,
                          struct buf *names_out)
{
    uct_md_resource_desc_t *devices = mem_new_array(count, sizeof(*devices));
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES,
        .md_resources = devices,
    };
    bool is_told = uct_component_query(component, &attr) == UCS_OK;
    for (unsigned i = 0; i < count && is_told; i++) {
        buf_add_string(names_out, names_out->size > 0 ? ", " : "");
        buf_add_string(names_out, devices[i].md_name);
    }
    mem_free(devices);
    return is_told ? count : 0;
}

static size_t devices_of(uct_component_h component, struct buf *names_out)
{
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT,
    };
    bool has_some = uct_component_query(component, &attr) == UCS_OK &&
                    is_rdma(&attr) && attr.md_resource_count > 0;
    return has_some ? add_devices(component, attr.md_resource_count, names_out)
                    : 0;
}

size_t rdma_devices_find(struct buf *names_out)
{
    uct_component_h *components;
    unsigned component_count;
    if (uct_query_components(&components, &component_count) != UCS_OK) {
        return 0;
    }
    size_t count = 0;
    for (unsigned i = 0; i < component_count; i++) {
        count += devices_of(components[i], names_out);
    }
    uct_release_component_list(components);
    return count;
}
