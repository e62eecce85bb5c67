#include "gguf/gguf.h"

#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "gguf/index.h"
#include "gguf/parse.h"
#include "io/file.h"

enum {
    PART_COUNT_MAX = 1024,
    PATH_SIZE_MAX = 4096,
    PART_SUFFIX_SIZE = 20 /* "-00001-of-00002.gguf" */
};

struct gguf {
    struct io_map **maps; /* NULL entries: bytes the caller keeps */
    struct gguf_part *parts;
    uint32_t part_count;
    struct gguf_key *keys; /* those of part 0 */
    uint32_t key_count;
    struct gguf_tensor *tensors; /* of all parts, in order */
    uint32_t tensor_count;
    uint64_t tensor_bytes;
    uint64_t file_bytes;
    struct gguf_index key_index;
    struct gguf_index tensor_index;
};

static struct span key_name_at(const void *owner, uint32_t number)
{
    return ((const struct gguf *)owner)->keys[number].name;
}

static struct span tensor_name_at(const void *owner, uint32_t number)
{
    return ((const struct gguf *)owner)->tensors[number].name;
}

static enum err index_keys(struct gguf *gguf, struct why *why)
{
    const char *path = gguf->parts[0].path;
    gguf->keys = gguf->parts[0].keys;
    gguf->key_count = gguf->parts[0].key_count;
    enum err err =
        gguf_index_init(&gguf->key_index, gguf->key_count, key_name_at, gguf);
    if (err != OK) {
        return why_say(why, err, "%s: no memory to index its keys", path);
    }
    for (uint32_t i = 0; i < gguf->key_count; i++) {
        if (gguf_index_add(&gguf->key_index, i) != GGUF_INDEX_NONE) {
            struct span name = gguf->keys[i].name;
            return why_say(why, ERR_INVALID, "%s: key %.*s is there twice",
                           path, name.size < 96 ? (int)name.size : 96,
                           name.data);
        }
    }
    return OK;
}

/* Puts the tensors of all parts into one table. */
static enum err gather_tensors(struct gguf *gguf, struct why *why)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < gguf->part_count; i++) {
        count += gguf->parts[i].tensor_count;
    }
    if (count > GGUF_TENSOR_COUNT_MAX) {
        return why_say(why, ERR_FULL, "%s: %llu tensors, at most %d are read",
                       gguf->parts[0].path, (unsigned long long)count,
                       GGUF_TENSOR_COUNT_MAX);
    }
    gguf->tensors = mem_try_array((size_t)count + 1, sizeof(*gguf->tensors));
    if (gguf->tensors == NULL) {
        return why_say(why, ERR_NO_MEMORY, "%s: no memory for its tensors",
                       gguf->parts[0].path);
    }
    for (uint32_t i = 0; i < gguf->part_count; i++) {
        struct gguf_part *part = &gguf->parts[i];
        memcpy(gguf->tensors + gguf->tensor_count, part->tensors,
               part->tensor_count * sizeof(*part->tensors));
        gguf->tensor_count += part->tensor_count;
        mem_free(part->tensors);
        part->tensors = NULL;
    }
    return OK;
}

static enum err index_tensors(struct gguf *gguf, struct why *why)
{
    const char *path = gguf->parts[0].path;
    enum err err = gather_tensors(gguf, why);
    if (err != OK) {
        return err;
    }
    err = gguf_index_init(&gguf->tensor_index, gguf->tensor_count,
                          tensor_name_at, gguf);
    if (err != OK) {
        return why_say(why, err, "%s: no memory to index its tensors", path);
    }
    for (uint32_t i = 0; i < gguf->tensor_count; i++) {
        const struct gguf_tensor *tensor = &gguf->tensors[i];
        if (gguf_index_add(&gguf->tensor_index, i) != GGUF_INDEX_NONE) {
            return why_say(why, ERR_INVALID, "%s: tensor %.*s is there twice",
                           path, (int)tensor->name.size, tensor->name.data);
        }
        gguf->tensor_bytes += tensor->data.size;
    }
    return OK;
}

static enum err add_part(struct gguf *gguf, const char *path, struct span bytes,
                         struct why *why)
{
    struct gguf_part *part = &gguf->parts[gguf->part_count];
    enum err err = gguf_part_parse(part, path, bytes, why);
    if (err == OK) {
        gguf->part_count++;
        gguf->file_bytes += bytes.size;
    }
    return err;
}

static enum err map_part(struct gguf *gguf, const char *path, struct why *why)
{
    struct io_map *map;
    enum err err = io_map_open(path, why, &map);
    if (err != OK) {
        return err;
    }
    uint32_t number = gguf->part_count;
    err = add_part(gguf, path, io_map_span(map), why);
    if (err != OK) {
        io_map_close(map);
        return err;
    }
    gguf->maps[number] = map;
    return OK;
}

/* A number of a part's own keys, before there is an index. */
static enum err part_number(const struct gguf_part *part, const char *name,
                            uint64_t fallback, struct why *why,
                            uint64_t *value_out)
{
    *value_out = fallback;
    for (uint32_t i = 0; i < part->key_count; i++) {
        const struct gguf_value *value = &part->keys[i].value;
        if (!span_equals_string(part->keys[i].name, name)) {
            continue;
        }
        if (value->kind == GGUF_UINT) {
            *value_out = value->unsigned_value;
            return OK;
        }
        if (value->kind == GGUF_INT && value->signed_value >= 0) {
            *value_out = (uint64_t)value->signed_value;
            return OK;
        }
        return why_say(why, ERR_INVALID, "%s: key %s: not a count", part->path,
                       name);
    }
    return OK;
}

/* Opens what follows the first part: same name, its number counted up. */
static enum err map_rest(struct gguf *gguf, const char *path, uint32_t count,
                         struct why *why)
{
    size_t size = strlen(path);
    char first[PART_SUFFIX_SIZE + 1];
    snprintf(first, sizeof(first), "-00001-of-%05u.gguf", count);
    if (size < PART_SUFFIX_SIZE || size >= PATH_SIZE_MAX ||
        strcmp(path + size - PART_SUFFIX_SIZE, first) != 0) {
        return why_say(why, ERR_INVALID,
                       "%s: first of %u files, so its name must end in %s",
                       path, count, first);
    }
    for (uint32_t i = 1; i < count; i++) {
        char next[PATH_SIZE_MAX];
        snprintf(next, sizeof(next), "%.*s-%05u-of-%05u.gguf",
                 (int)(size - PART_SUFFIX_SIZE), path, i + 1, count);
        uint64_t number = 0;
        uint64_t said = 0;
        enum err err = map_part(gguf, next, why);
        if (err == OK) {
            err = part_number(&gguf->parts[i], "split.no", 0, why, &number);
        }
        if (err == OK) {
            err = part_number(&gguf->parts[i], "split.count", 0, why, &said);
        }
        if (err == OK && (number != i || said != count)) {
            err = why_say(why, ERR_INVALID, "%s: says it is part %llu of %llu",
                          next, (unsigned long long)number + 1,
                          (unsigned long long)said);
        }
        if (err != OK) {
            return err;
        }
        gguf->parts[i].path = path;
    }
    return OK;
}

static enum err read_split(const struct gguf_part *part, struct why *why,
                           uint32_t *count_out)
{
    uint64_t number;
    uint64_t count;
    enum err err = part_number(part, "split.no", 0, why, &number);
    if (err == OK) {
        err = part_number(part, "split.count", 1, why, &count);
    }
    if (err != OK) {
        return err;
    }
    if (count > PART_COUNT_MAX) {
        return why_say(why, ERR_INVALID,
                       "%s: key split.count: %llu files, at most %d",
                       part->path, (unsigned long long)count, PART_COUNT_MAX);
    }
    if (number != 0) {
        return why_say(why, ERR_INVALID,
                       "%s: part %llu of %llu: open the first, "
                       "NAME-00001-of-%05llu.gguf",
                       part->path, (unsigned long long)number + 1,
                       (unsigned long long)count, (unsigned long long)count);
    }
    *count_out = count > 1 ? (uint32_t)count : 1;
    return OK;
}

static enum err check_split_total(const struct gguf *gguf, struct why *why)
{
    uint64_t said;
    enum err err = part_number(&gguf->parts[0], "split.tensors.count",
                               gguf->tensor_count, why, &said);
    if (err == OK && said != gguf->tensor_count) {
        err = why_say(why, ERR_INVALID,
                      "%s: its parts hold %u tensors, key "
                      "split.tensors.count says %llu",
                      gguf->parts[0].path, gguf->tensor_count,
                      (unsigned long long)said);
    }
    return err;
}

static struct gguf *create(void)
{
    struct gguf *gguf = mem_new(sizeof(*gguf));
    gguf->maps = mem_new_array(PART_COUNT_MAX, sizeof(struct io_map *));
    gguf->parts = mem_new_array(PART_COUNT_MAX, sizeof(struct gguf_part));
    return gguf;
}

/* What is left to do once the first part is there. */
static enum err complete(struct gguf *gguf, const char *path, struct why *why)
{
    uint32_t part_count = 1;
    enum err err = read_split(&gguf->parts[0], why, &part_count);
    if (err == OK && part_count > 1) {
        err = path != NULL
                  ? map_rest(gguf, path, part_count, why)
                  : why_say(why, ERR_UNSUPPORTED,
                            "%s: one of %u files, which bytes alone cannot "
                            "open",
                            gguf->parts[0].path, part_count);
    }
    if (err == OK) {
        err = index_keys(gguf, why);
    }
    if (err == OK) {
        err = index_tensors(gguf, why);
    }
    if (err == OK && part_count > 1) {
        err = check_split_total(gguf, why);
    }
    gguf->parts[0].path = NULL;
    return err;
}

enum err gguf_open(const char *path, struct why *why, struct gguf **gguf_out)
{
    struct gguf *gguf = create();
    enum err err = map_part(gguf, path, why);
    if (err == OK) {
        err = complete(gguf, path, why);
    }
    if (err != OK) {
        gguf_close(gguf);
        return err;
    }
    *gguf_out = gguf;
    return OK;
}

enum err gguf_open_bytes(struct span bytes, struct why *why,
                         struct gguf **gguf_out)
{
    struct gguf *gguf = create();
    enum err err = add_part(gguf, "model bytes", bytes, why);
    if (err == OK) {
        err = complete(gguf, NULL, why);
    }
    if (err != OK) {
        gguf_close(gguf);
        return err;
    }
    *gguf_out = gguf;
    return OK;
}

void gguf_close(struct gguf *gguf)
{
    if (gguf == NULL) {
        return;
    }
    for (uint32_t i = 0; i < gguf->part_count; i++) {
        gguf_part_finish(&gguf->parts[i]);
        io_map_close(gguf->maps[i]);
    }
    gguf_index_finish(&gguf->key_index);
    gguf_index_finish(&gguf->tensor_index);
    mem_free(gguf->tensors);
    mem_free(gguf->parts);
    mem_free(gguf->maps);
    mem_free(gguf);
}

uint32_t gguf_key_count(const struct gguf *gguf)
{
    return gguf->key_count;
}

void gguf_key_at(const struct gguf *gguf, uint32_t index, struct span *name_out,
                 struct gguf_value *value_out)
{
    CHECK(index < gguf->key_count);
    *name_out = gguf->keys[index].name;
    *value_out = gguf->keys[index].value;
}

uint32_t gguf_tensor_count(const struct gguf *gguf)
{
    return gguf->tensor_count;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf,
                                         uint32_t index)
{
    CHECK(index < gguf->tensor_count);
    return &gguf->tensors[index];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf,
                                           const char *name)
{
    int64_t number = gguf_index_find(&gguf->tensor_index, span_of_string(name));
    return number == GGUF_INDEX_NONE ? NULL : &gguf->tensors[number];
}

bool gguf_find(const struct gguf *gguf, const char *key,
               struct gguf_value *value_out)
{
    int64_t number = gguf_index_find(&gguf->key_index, span_of_string(key));
    if (number == GGUF_INDEX_NONE) {
        return false;
    }
    *value_out = gguf->keys[number].value;
    return true;
}

uint64_t gguf_tensor_bytes(const struct gguf *gguf)
{
    return gguf->tensor_bytes;
}

uint64_t gguf_file_bytes(const struct gguf *gguf)
{
    return gguf->file_bytes;
}
