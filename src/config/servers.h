#pragma once
/* config/servers: the sections `context_servers` and `generation_servers` of
 * the front end's file (serve.md 1.2, V1 to V3, V6, V10, V14). Pure. */
#include "config/route.h"
#include "config/tree.h"

/* A section, or with `node` NULL a list "host:port,host:port". */
MUST_USE enum err config_servers_read(const struct config_node *node,
                                      const char *text, struct why *why,
                                      struct config_servers *servers);
/* Zero servers, one twice. `role` is the section's name. */
MUST_USE enum err config_servers_check(const struct config_servers *servers,
                                       const char *role, struct why *why);
void config_servers_print(const struct config_servers *servers,
                          struct buf *out);
/* `urls` and the like: of a section, not of the front end. */
bool config_servers_is_own_key(const char *key);
/* Engine options, which the front end passes over. */
bool config_servers_is_engine_key(const char *key);
/* An engine option at the top and in a section must be the same. */
MUST_USE enum err config_servers_check_inherited(const struct config_node *root,
                                                 const char *name,
                                                 struct why *why);
